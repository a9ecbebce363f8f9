#include "config.h"
#include "tools/acl_lists.h"

#include "base/number.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Copies the text before the next comma into `part` and advances *text_p past
 * the comma. Returns NULL with a message in `reason` if the text is empty or
 * too long. */
static const char *next_part(const char **text_p, char part[ACL_WORD_MAX],
                             char *reason, size_t size)
{
    size_t length = strcspn(*text_p, ",");

    if (length == 0 || length >= ACL_WORD_MAX) {
        snprintf(reason, size,
                 "'%.40s' must begin with a word of 1 to %d characters",
                 *text_p, ACL_WORD_MAX - 1);
        return NULL;
    }
    mrail_copy(part, *text_p, length);
    part[length] = '\0';
    *text_p += length;
    return part;
}

static int add(acl_list_t *list, const char *word, char *reason, size_t size)
{
    if (list->num == ACL_LIST_MAX) {
        snprintf(reason, size, "a list may have at most %d words",
                 ACL_LIST_MAX);
        return -EINVAL;
    }
    snprintf(list->words[list->num++], ACL_WORD_MAX, "%s", word);
    return 0;
}

/* ---- Names ---- */

/* Expands "swp[1-4]". Modifies `part`. */
static int add_range(acl_list_t *list, char *part, char *reason, size_t size)
{
    char *open = strchr(part, '['), *dash = strchr(open, '-');
    char *close = strchr(open, ']');
    uint64_t first, last;
    int ret = 0;

    if (dash == NULL || close == NULL || dash > close) {
        snprintf(reason, size, "'%.40s': a range is written as swp[1-4]", part);
        return -EINVAL;
    }
    *open = *dash = *close = '\0';
    if (mrail_number_uint(open + 1, 0, 100000, &first) != 0 ||
        mrail_number_uint(dash + 1, first, first + ACL_LIST_MAX - 1, &last) !=
            0) {
        snprintf(reason, size,
                 "'%.20s[%.10s-%.10s]': expected two numbers, the lower one "
                 "first, and at most %d names",
                 part, open + 1, dash + 1, ACL_LIST_MAX);
        return -EINVAL;
    }
    for (; first <= last && ret == 0; ++first) {
        char word[2 * ACL_WORD_MAX];

        snprintf(word, sizeof(word), "%s%u%s", part, (unsigned)first,
                 close + 1);
        if (strlen(word) >= ACL_WORD_MAX) {
            snprintf(reason, size, "'%.40s...' is too long for a name", word);
            return -EINVAL;
        }
        ret = add(list, word, reason, size);
    }
    return ret;
}

int acl_list_names(const char *text, acl_list_t *list, char *reason,
                   size_t size)
{
    char part[ACL_WORD_MAX];
    int ret = 0;

    list->num = 0;
    for (;; ++text) {
        if (next_part(&text, part, reason, size) == NULL) {
            return -EINVAL;
        }
        ret = (strchr(part, '[') != NULL) ? add_range(list, part, reason, size)
                                          : add(list, part, reason, size);
        if (ret != 0 || *text == '\0') {
            return ret;
        }
    }
}

/* ---- Next hops ---- */

/* Parses "A", "A+STEP" or "A+STEPxN". Modifies `part`. */
static int add_hops(acl_list_t *list, unsigned uplinks, char *part,
                    char *reason, size_t size)
{
    char *plus = strchr(part, '+');
    char *times = (plus != NULL) ? strchr(plus, 'x') : NULL;
    uint64_t step = 0, num = 1;
    char whole[ACL_WORD_MAX];
    struct in_addr addr;
    int ret = 0;

    snprintf(whole, sizeof(whole), "%s", part);
    if (plus != NULL) {
        *plus = '\0';
        num = (list->num < uplinks) ? uplinks - list->num : 1;
    }
    if (times != NULL) {
        *times = '\0';
    }
    if (inet_pton(AF_INET, part, &addr) != 1 ||
        (plus != NULL &&
         mrail_number_uint(plus + 1, 1, UINT16_MAX, &step) != 0) ||
        (times != NULL &&
         mrail_number_uint(times + 1, 1, ACL_LIST_MAX, &num) != 0)) {
        snprintf(reason, size,
                 "'%.40s' is not a next hop; expected ADDRESS, ADDRESS+STEP or "
                 "ADDRESS+STEPxN",
                 whole);
        return -EINVAL;
    }
    for (; num > 0 && ret == 0; --num) {
        char word[INET_ADDRSTRLEN];

        inet_ntop(AF_INET, &addr, word, sizeof(word));
        ret = add(list, word, reason, size);
        if (num > 1 && ntohl(addr.s_addr) > UINT32_MAX - step) {
            snprintf(reason, size, "%s+%u: the next address is too large", word,
                     (unsigned)step);
            return -EINVAL;
        }
        addr.s_addr = htonl(ntohl(addr.s_addr) + (uint32_t)step);
    }
    return ret;
}

int acl_list_next_hops(const char *text, unsigned uplinks, acl_list_t *list,
                       char *reason, size_t size)
{
    char part[ACL_WORD_MAX];

    list->num = 0;
    for (;; ++text) {
        if (next_part(&text, part, reason, size) == NULL ||
            add_hops(list, uplinks, part, reason, size) != 0) {
            return -EINVAL;
        }
        if (*text == '\0') {
            break;
        }
    }
    if (list->num != uplinks) {
        snprintf(reason, size, "%u next hop%s, but %u uplink%s", list->num,
                 (list->num == 1) ? "" : "s", uplinks,
                 (uplinks == 1) ? "" : "s");
        return -EINVAL;
    }
    return 0;
}
