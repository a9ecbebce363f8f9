/*
 * Intrusive doubly linked list with a head. A node that is on no list points to
 * itself; mrail_list_init() and mrail_list_del() leave it that way. Not
 * thread-safe: the caller must serialise all calls.
 */
#ifndef MRAIL_BASE_LIST_H
#define MRAIL_BASE_LIST_H

#include "base/util.h"

typedef struct mrail_list {
    struct mrail_list *prev;
    struct mrail_list *next;
} mrail_list_t;

static inline void mrail_list_init(mrail_list_t *head)
{
    head->prev = head->next = head;
}

static inline int mrail_list_empty(const mrail_list_t *head)
{
    return head->next == head;
}

static inline void mrail_list_insert_before(mrail_list_t *pos,
                                            mrail_list_t *node)
{
    node->prev = pos->prev;
    node->next = pos;
    pos->prev->next = node;
    pos->prev = node;
}

static inline void mrail_list_add_tail(mrail_list_t *head, mrail_list_t *node)
{
    mrail_list_insert_before(head, node);
}

static inline void mrail_list_add_head(mrail_list_t *head, mrail_list_t *node)
{
    mrail_list_insert_before(head->next, node);
}

static inline void mrail_list_del(mrail_list_t *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    mrail_list_init(node);
}

/* Moves all nodes of one list to the end of another. */
static inline void mrail_list_move_all(mrail_list_t *to, mrail_list_t *from)
{
    if (!mrail_list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        mrail_list_init(from);
    }
}

#define mrail_list_entry(ptr, type, member)                                    \
    MRAIL_CONTAINER_OF(ptr, type, member)
#define mrail_list_head(head, type, member)                                    \
    mrail_list_entry((head)->next, type, member)
#define mrail_list_for_each(pos, head, type, member)                           \
    for (pos = mrail_list_entry((head)->next, type, member);                   \
         &pos->member != (head);                                               \
         pos = mrail_list_entry(pos->member.next, type, member))
/* Like mrail_list_for_each(), but the body may remove `pos` from the list. */
#define mrail_list_for_each_safe(pos, tmp, head, type, member)                 \
    for (pos = mrail_list_entry((head)->next, type, member),                   \
        tmp = mrail_list_entry(pos->member.next, type, member);                \
         &pos->member != (head);                                               \
         pos = tmp, tmp = mrail_list_entry(tmp->member.next, type, member))

#endif
