/*
 * The options of `mrail soft` and `mrail run` that describe software GPUs.
 * Parses text without I/O.
 */
#ifndef MRAIL_TOOLS_GPUS_H
#define MRAIL_TOOLS_GPUS_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_GPUS_MAX 16 /* maximum per node */

typedef struct mrail_gpus_options {
    unsigned num;       /* GPUs per node, or 0 if not given */
    const char *link;   /* text of --gpu-link, or NULL */
    const char *pcie;   /* text of --pcie, or NULL */
    uint64_t memory;    /* bytes of each GPU, or 0 if not given */
    const char *faults; /* text of --gpu-fault, or NULL */
    int peermem;        /* --peermem */
} mrail_gpus_options_t;

/* The links between the GPUs of a node, in the order of sgpu_link_kind_t. */
typedef enum mrail_gpus_link {
    MRAIL_GPUS_MESH,
    MRAIL_GPUS_SWITCH,
    MRAIL_GPUS_NONE
} mrail_gpus_link_t;

/* Reads "mesh:RATE", "switch:RATE", "mesh", "switch" or "none". A rate of 0
 * means no limit. Returns 0, or -EINVAL with the cause in `reason`. */
int mrail_gpus_parse_link(const char *text, mrail_gpus_link_t *link_p,
                          uint64_t *bytes_per_s_p, char *reason, size_t size);

/* Returns 1 if the options request links between pairs of GPUs. */
int mrail_gpus_have_pairs(const mrail_gpus_options_t *options);

/* Checks the options, which need num > 0. Returns 0, or -EINVAL with the
 * reason. */
int mrail_gpus_check(const mrail_gpus_options_t *options, char *reason,
                     size_t size);

/* Expands to the rows of an option table. The arguments are the type of the
 * target and the name of its member of type mrail_gpus_options_t. */
#define MRAIL_GPUS_OPTIONS(_type, _member)                                     \
    {"--gpus",                                                                 \
     "N",                                                                      \
     "software GPUs per node, 1 to 16 (default: none)",                        \
     MRAIL_OPTION_UNSIGNED,                                                    \
     offsetof(_type, _member.num),                                             \
     1,                                                                        \
     MRAIL_GPUS_MAX,                                                           \
     NULL},                                                                    \
        {"--gpu-link",                                                         \
         "KIND:RATE",                                                          \
         "links between the GPUs of a node and their rate: mesh (between all " \
         "pairs), switch (between each GPU and a switch) or none (default: "   \
         "mesh, no limit)",                                                    \
         MRAIL_OPTION_TEXT,                                                    \
         offsetof(_type, _member.link),                                        \
         0,                                                                    \
         0,                                                                    \
         NULL},                                                                \
        {"--pcie",                                                             \
         "RATE",                                                               \
         "rate between host memory and each GPU, in each direction (default: " \
         "max)",                                                               \
         MRAIL_OPTION_TEXT,                                                    \
         offsetof(_type, _member.pcie),                                        \
         0,                                                                    \
         0,                                                                    \
         NULL},                                                                \
        {"--gpu-memory",                                                       \
         "SIZE",                                                               \
         "memory of each GPU (default: 1G)",                                   \
         MRAIL_OPTION_SIZE,                                                    \
         offsetof(_type, _member.memory),                                      \
         0,                                                                    \
         UINT64_C(1) << 40,                                                    \
         NULL},                                                                \
        {"--gpu-fault",                                                        \
         "LIST",                                                               \
         "faults of all GPUs from the start, such as no_dmabuf,no_peer; "      \
         "mrail soft ctl --help lists them",                                   \
         MRAIL_OPTION_TEXT,                                                    \
         offsetof(_type, _member.faults),                                      \
         0,                                                                    \
         0,                                                                    \
         NULL},                                                                \
    {                                                                          \
        "--peermem", NULL,                                                     \
            "rails register GPU memory by its address, as with the kernel "    \
            "module nvidia-peermem",                                           \
            MRAIL_OPTION_FLAG, offsetof(_type, _member.peermem), 0, 0, NULL    \
    }

#endif
