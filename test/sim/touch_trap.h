/*
 * Counts which blocks of memory a piece of code touches.
 *
 * While recording, calloc(3) returns blocks of whole pages. A watch makes the
 * pages of recorded blocks inaccessible. The first access to each page is
 * counted and makes the page accessible again. A program that uses this file is
 * linked with -Wl,--wrap=calloc -Wl,--wrap=free. It may have only one thread.
 */
#ifndef MRAIL_TEST_TOUCH_TRAP_H
#define MRAIL_TEST_TOUCH_TRAP_H

#include <stddef.h>

/* Starts to record blocks of at least `least` bytes. `size` limits the bytes of
 * all blocks, each rounded up to whole pages. */
void touch_trap_record(size_t size, size_t least);
/* Returns the number of bytes in the blocks recorded so far, which is a
 * position for touch_trap_watch(). */
size_t touch_trap_position(void);
/* Stops recording. */
void touch_trap_stop(void);

/* Watches the blocks between two positions, and clears earlier counts. */
void touch_trap_watch(size_t from, size_t to);
/* Ends the watch. Returns the number of blocks that were touched. */
unsigned touch_trap_touched(void);

/* Frees everything. All blocks must be unused. */
void touch_trap_end(void);

#endif
