/*
 * Fault scripts at random: the same seed, the same text.
 */
#ifndef MRAIL_TEST_RANDOM_SCRIPT_H
#define MRAIL_TEST_RANDOM_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#define RANDOM_SCRIPT_MAX 4096 /* bytes of the text */

typedef enum random_script_kind {
    RANDOM_SCRIPT_PASSES,   /* anything anywhere, and in the end all is well */
    RANDOM_SCRIPT_SURVIVOR, /* rails go for good, all but one, which is only
                               shaken */
    RANDOM_SCRIPT_CUT,      /* one node is cut off, for good */
    RANDOM_SCRIPT_KINDS
} random_script_kind_t;

extern const char *const random_script_names[RANDOM_SCRIPT_KINDS];

/*
 * Writes a script for two nodes of num_rails rails, most of which happens within
 * span_us microseconds, the rest within ten times that.
 */
void random_script(uint64_t seed, random_script_kind_t kind, unsigned num_rails,
                   uint32_t span_us, char text[RANDOM_SCRIPT_MAX]);

#endif
