/*
 * Random fault scripts. The same seed gives the same script.
 */
#ifndef MRAIL_TEST_RANDOM_SCRIPT_H
#define MRAIL_TEST_RANDOM_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

#define RANDOM_SCRIPT_MAX 4096 /* size of the text in bytes */

typedef enum random_script_kind {
    /* Any fault may occur anywhere, but everything is restored at the end. */
    RANDOM_SCRIPT_PASSES,
    /* All rails but one fail permanently. The remaining rail is only disturbed
     * temporarily. */
    RANDOM_SCRIPT_SURVIVOR,
    RANDOM_SCRIPT_CUT, /* one node is cut off permanently */
    RANDOM_SCRIPT_KINDS
} random_script_kind_t;

extern const char *const random_script_names[RANDOM_SCRIPT_KINDS];

/*
 * Writes a script for two nodes with num_rails rails each. Most steps start
 * within span_us microseconds, and all within ten times that.
 */
void random_script(uint64_t seed, random_script_kind_t kind, unsigned num_rails,
                   uint32_t span_us, char text[RANDOM_SCRIPT_MAX]);

#endif
