#include "config.h"
#include "base/heap.h"

/* Merges two heaps and returns the new root. Both arguments are roots without
 * siblings, or NULL. */
static mrail_heap_node_t *mrail_heap_merge(mrail_heap_node_t *a,
                                           mrail_heap_node_t *b)
{
    mrail_heap_node_t *low = a, *high = b;

    if ((a == NULL) || (b == NULL)) {
        return (a == NULL) ? b : a;
    }
    if (b->key < a->key) {
        low = b;
        high = a;
    }
    high->next = low->child;
    high->prev = low;
    if (low->child != NULL) {
        low->child->prev = high;
    }
    low->child = high;
    low->next = low->prev = NULL;
    return low;
}

/* Removes and returns the first node of a list of siblings. */
static mrail_heap_node_t *mrail_heap_pop(mrail_heap_node_t **list)
{
    mrail_heap_node_t *node = *list;

    if (node != NULL) {
        *list = node->next;
        node->next = node->prev = NULL;
    }
    return node;
}

/* Merges siblings in pairs, and then the pairs from the last to the first. */
static mrail_heap_node_t *mrail_heap_merge_all(mrail_heap_node_t *list)
{
    mrail_heap_node_t *pairs = NULL, *root = NULL, *pair;

    while (list != NULL) {
        mrail_heap_node_t *first = mrail_heap_pop(&list);
        mrail_heap_node_t *second = mrail_heap_pop(&list);

        pair = mrail_heap_merge(first, second);
        pair->next = pairs;
        pairs = pair;
    }
    while ((pair = mrail_heap_pop(&pairs)) != NULL) {
        root = mrail_heap_merge(root, pair);
    }
    return root;
}

/* Detaches a node other than the root, together with its children. */
static void mrail_heap_cut(mrail_heap_node_t *node)
{
    if (node->prev->child == node) {
        node->prev->child = node->next;
    } else {
        node->prev->next = node->next;
    }
    if (node->next != NULL) {
        node->next->prev = node->prev;
    }
    node->next = node->prev = NULL;
}

void mrail_heap_del(mrail_heap_t *heap, mrail_heap_node_t *node)
{
    mrail_heap_node_t *rest;

    if (!node->is_in) {
        return;
    }
    if (heap->root == node) {
        heap->root = NULL;
    } else {
        mrail_heap_cut(node);
    }
    rest = mrail_heap_merge_all(node->child);
    heap->root = mrail_heap_merge(heap->root, rest);
    node->child = NULL;
    node->is_in = 0;
}

void mrail_heap_set(mrail_heap_t *heap, mrail_heap_node_t *node, uint64_t key)
{
    if (node->is_in && (node->key == key)) {
        return;
    }
    mrail_heap_del(heap, node);
    node->key = key;
    node->is_in = 1;
    heap->root = mrail_heap_merge(heap->root, node);
}
