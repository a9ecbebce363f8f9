#include "config.h"
#include "acl_texts.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

mrail_acl_uplink_t acl_test_uplinks[ACL_TEST_UPLINKS];
char acl_test_next_hops[ACL_TEST_UPLINKS][16];

mrail_acl_t acl_test_options(unsigned num)
{
    for (unsigned i = 0; i < ACL_TEST_UPLINKS; ++i) {
        snprintf(acl_test_next_hops[i], sizeof(acl_test_next_hops[i]),
                 "10.9.%u.1", i);
        acl_test_uplinks[i] =
            (mrail_acl_uplink_t){.next_hop = acl_test_next_hops[i]};
    }
    return (mrail_acl_t){.num_uplinks = num,
                         .uplinks = acl_test_uplinks,
                         .leaf_uplinks = 1,
                         .dscp = MRAIL_ACL_NO_DSCP,
                         .name = "udf"};
}

/* The caller frees the text. */
char *acl_test_text(const mrail_acl_t *acl, mrail_acl_dialect_t dialect)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    assert_non_null(stream);
    mrail_acl_write(acl, dialect, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

char *acl_test_undo(const mrail_acl_t *acl, mrail_acl_dialect_t dialect)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    assert_non_null(stream);
    mrail_acl_write_undo(acl, dialect, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

acl_test_check_t acl_test_check(mrail_acl_dialect_t dialect, const char *text,
                                unsigned num_uplinks, unsigned leaf_uplinks)
{
    acl_test_check_t check = {.ret = 0};
    FILE *stream = fmemopen(check.found, sizeof(check.found), "w");

    assert_non_null(stream);
    check.ret =
        mrail_acl_check(dialect, text, strlen(text), num_uplinks, leaf_uplinks,
                        stream, &check.report, check.why, sizeof(check.why));
    fclose(stream);
    check.found[sizeof(check.found) - 1] = '\0';
    return check;
}

void acl_test_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in:\n%s", part, text);
    }
}

void acl_test_lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        fail_msg("'%s' in:\n%s", part, text);
    }
}

char *acl_test_vrfs(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                    int undo)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    assert_non_null(stream);
    mrail_acl_write_vrfs(acl, dialect, undo, stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}
