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

#include "base/util.h"

const char *const acl_test_ports[2] = {"Ethernet1", "Ethernet2"};
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
    check.ret = mrail_acl_check(dialect, text, strlen(text), num_uplinks,
                                leaf_uplinks, stream, &check.report,
                                check.reason, sizeof(check.reason));
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

char *acl_test_edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *all = NULL;

    if (at == NULL) {
        fail_msg("no '%s' in:\n%s", from, text);
    }
    assert_true(asprintf(&all, "%.*s%s%s", (int)(at - text), text, to,
                         at + strlen(from)) > 0);
    return all;
}

static void check_edit(const acl_test_edit_t *edit)
{
    mrail_acl_t acl = acl_test_options(4);
    acl_test_check_t check;
    char *text, *other;

    acl.ingress = acl_test_ports;
    acl.num_ingress = MRAIL_ARRAY_SIZE(acl_test_ports);
    text = acl_test_text(&acl, edit->dialect);
    assert_int_equal(acl_test_check(edit->dialect, text, 4, 1).ret, 0);
    if (edit->from != NULL) {
        other = acl_test_edited(text, edit->from, edit->to);
    } else {
        assert_true(asprintf(&other, "%s%s", text, edit->to) > 0);
    }
    check = acl_test_check(edit->dialect, other, 4, 1);
    if (edit->part == NULL) {
        if (check.found[0] != '\0') {
            fail_msg("found:\n%s\nedit:\n%s", check.found, edit->to);
        }
        assert_int_equal(check.ret, 0);
    } else {
        if (strstr(check.found, edit->part) == NULL) {
            fail_msg("no '%s' in:\n%s\nedit:\n%s", edit->part, check.found,
                     edit->to);
        }
        assert_int_equal(check.ret, -ERANGE);
    }
    free(other);
    free(text);
}

void acl_test_edits(const acl_test_edit_t *edits, unsigned num)
{
    for (unsigned i = 0; i < num; ++i) {
        check_edit(&edits[i]);
    }
}
