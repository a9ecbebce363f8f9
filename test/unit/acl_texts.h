/* Declares helpers for the tests of switch rules: options, and functions that
 * write texts and read them back. The caller frees the texts. */
#ifndef MRAIL_TEST_ACL_TEXTS_H
#define MRAIL_TEST_ACL_TEXTS_H

#include "fabric/acl.h"

#define ACL_TEST_UPLINKS 256

/* Two host-facing ports. */
extern const char *const acl_test_ports[2];

/* The uplinks that acl_test_options() uses. */
extern mrail_acl_uplink_t acl_test_uplinks[ACL_TEST_UPLINKS];
extern char acl_test_next_hops[ACL_TEST_UPLINKS][16];

/* Returns the options of a leaf with the next hops 10.9.0.1, 10.9.1.1, ... */
mrail_acl_t acl_test_options(unsigned num);

char *acl_test_text(const mrail_acl_t *acl, mrail_acl_dialect_t dialect);
char *acl_test_undo(const mrail_acl_t *acl, mrail_acl_dialect_t dialect);
char *acl_test_vrfs(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                    int undo);

typedef struct acl_test_check {
    int ret;
    mrail_acl_report_t report;
    char reason[256];
    char found[4096]; /* text of the findings */
} acl_test_check_t;

acl_test_check_t acl_test_check(mrail_acl_dialect_t dialect, const char *text,
                                unsigned num_uplinks, unsigned leaf_uplinks);

/* Returns the text with the first occurrence of `from` replaced by `to`. The
 * text must contain `from`. */
char *acl_test_edited(const char *text, const char *from, const char *to);

typedef struct acl_test_edit {
    mrail_acl_dialect_t dialect;
    const char *from, *to; /* from is NULL: append `to` */
    const char *part;      /* expected in the findings; NULL: no findings */
} acl_test_edit_t;

/* Checks rules for four uplinks and two ports, after each of the edits. */
void acl_test_edits(const acl_test_edit_t *edits, unsigned num);

/* acl_test_has() fails the test unless `text` contains `part`. acl_test_lacks()
 * fails the test if `text` contains `part`. */
void acl_test_has(const char *text, const char *part);
void acl_test_lacks(const char *text, const char *part);

#endif
