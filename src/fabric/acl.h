/*
 * Switch rules that map each segment of RoCEv2 source ports to one uplink, in
 * several switch dialects. A reader checks whether a rule set covers the port
 * range. Source: [CTCCL] 3.2 and 4.1.
 *
 * The segments come from orchestrator/ports.h, so rules and lanes always agree.
 * The writer converts options to text, and the reader converts text to a
 * report. Neither contacts a switch.
 */
#ifndef MRAIL_FABRIC_ACL_H
#define MRAIL_FABRIC_ACL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MRAIL_ACL_NO_DSCP 255
/* MRAIL_ACL_LINUX marks packets for uplink n, counted from 0, with this value +
 * n + 1. */
#define MRAIL_ACL_LINUX_MARK 0x47910000u
#define MRAIL_ACL_MAX_UPLINKS 256

typedef enum mrail_acl_dialect {
    MRAIL_ACL_IOS,   /* ACL and route map as in [CTCCL] 4.1 */
    MRAIL_ACL_EOS,   /* Arista EOS: policy map of type pbr */
    MRAIL_ACL_SONIC, /* SONiC: ACL_TABLE and ACL_RULE with redirection, JSON */
    MRAIL_ACL_NVUE,  /* NVIDIA Cumulus Linux: nv set */
    MRAIL_ACL_LINUX, /* iproute2 and nftables, even with FRR: a shell script */
    MRAIL_ACL_NUM_DIALECTS
} mrail_acl_dialect_t;

/* The handling of a segment whose uplink has failed. */
typedef enum mrail_acl_failure {
    /* Packets take the ordinary routes (ECMP). No packets are lost, but the
     * other uplinks carry unequal loads. */
    MRAIL_ACL_FALL_THROUGH,
    /* Packets are dropped. The segment's lanes fail over, and the other uplinks
     * carry equal loads. */
    MRAIL_ACL_DROP
} mrail_acl_failure_t;

typedef struct mrail_acl_uplink {
    const char *next_hop; /* IPv4 address of the far end */
    const char *port;     /* name of the switch port; NULL if unknown */
} mrail_acl_uplink_t;

typedef struct mrail_acl {
    unsigned num_uplinks;              /* 1 to MRAIL_ACL_MAX_UPLINKS */
    const mrail_acl_uplink_t *uplinks; /* uplink n takes segment n */
    /*
     * On a leaf, which divides the whole range among its uplinks: 1. On a spine
     * of a three-tier fabric, which divides each leaf segment among its own
     * uplinks: the number of uplinks per leaf.
     */
    unsigned leaf_uplinks;
    unsigned dscp; /* 0 to 63, or MRAIL_ACL_NO_DSCP */
    mrail_acl_failure_t failure;
    /* prefix of list and map names, such as "udf" */
    const char *name;
    const char *const *ingress; /* ports on which the rules apply */
    /* if 0, the writer emits a placeholder line */
    unsigned num_ingress;
    /* IPv4 prefixes such as "10.0.0.0/24" that the switch reaches without its
     * uplinks. Packets to them take the ordinary routes. */
    const char *const *local;
    unsigned num_local;
    /* IOS only: write exactly the lines in [CTCCL] 4.1. */
    int as_printed;
} mrail_acl_t;

/* Returns "ios", "eos", "sonic", "nvue" or "linux". */
const char *mrail_acl_dialect_name(mrail_acl_dialect_t dialect);

/* Checks the options. Returns 0, or -EINVAL with a message in `reason`. */
int mrail_acl_validate(const mrail_acl_t *acl, char *reason,
                       size_t reason_size);

/* Like mrail_acl_validate(), but also checks the limits of one dialect. */
int mrail_acl_validate_dialect(const mrail_acl_t *acl,
                               mrail_acl_dialect_t dialect, char *reason,
                               size_t reason_size);

/* Like mrail_acl_validate(), but for mrail_acl_write_vrfs(). */
int mrail_acl_validate_vrfs(const mrail_acl_t *acl, char *reason,
                            size_t reason_size);

/* Returns a message that describes how switches of this dialect deviate from
 * acl->failure, or NULL if they do not. */
const char *mrail_acl_failure_note(const mrail_acl_t *acl,
                                   mrail_acl_dialect_t dialect);

/* Returns the first and last port of uplink `uplink` in leaf segment `segment`.
 * `segment` is below acl->leaf_uplinks, so it is 0 on a leaf. The options must
 * be valid. */
void mrail_acl_range(const mrail_acl_t *acl, unsigned uplink, unsigned segment,
                     uint16_t *first_p, uint16_t *last_p);

/* Writes the rules or, for undo, the commands that remove them. The options
 * must be valid for the dialect. A NULL next hop is written as NEXT_HOP_1 and
 * so on, which switches reject. */
void mrail_acl_write(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                     FILE *stream);
void mrail_acl_write_undo(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                          FILE *stream);

/*
 * Writes commands that put each of the `num_uplinks` parallel links between a
 * spine and its leaves into its own VRF or, for undo, that remove the VRFs.
 * acl->ingress lists the spine's ports to its leaves: all links of the first
 * leaf, then all links of the next. A packet that arrives on the k-th link from
 * one leaf leaves on the k-th link to another. Source: [CTCCL] 4.1, Fig. 5.
 */
void mrail_acl_write_vrfs(const mrail_acl_t *acl, mrail_acl_dialect_t dialect,
                          int undo, FILE *stream);

typedef struct mrail_acl_report {
    unsigned num_rules, num_targets;
    unsigned num_holes;     /* ranges of ports without a rule */
    unsigned num_overlaps;  /* rules that share a port with an earlier one */
    unsigned num_unmapped;  /* rules without a target, and exemptions */
    unsigned num_outside;   /* rules for ports below 0xC000 */
    unsigned num_misplaced; /* segments that differ from the segments of
                             * ports.h */
    /* rules with a different DSCP or source, and references to missing lists */
    unsigned num_conflicts;
    /* maps, lists and tables that are applied to no port, if the text has
     * ports */
    unsigned num_unapplied;
} mrail_acl_report_t;

#define MRAIL_ACL_MAX_TEXT (4u << 20) /* maximum bytes of a rule set */
#define MRAIL_ACL_MAX_RULES 16384u    /* maximum rules of a rule set */

/*
 * Reads a rule set and compares it with the segments of `num_uplinks` uplinks
 * (0 means as many as there are targets). Prints one line to `stream` for each
 * finding, with the line number in the text. Writes `report` if the text could
 * be read. Returns 0 if each port of the range goes to exactly one uplink.
 * Errors:
 * - -ERANGE: there is a hole, an overlap or another finding;
 * - -EINVAL: the text is malformed or in another dialect; `reason` contains a
 *   message;
 * - -ENOMEM.
 */
int mrail_acl_check(mrail_acl_dialect_t dialect, const char *text,
                    size_t length, unsigned num_uplinks, unsigned leaf_uplinks,
                    FILE *stream, mrail_acl_report_t *report, char *reason,
                    size_t reason_size);

#endif
