/*
 * Handles the terminal for mrail top: its size, and single keys. The original
 * settings are restored when the process exits or is suspended.
 */
#ifndef MRAIL_TOOLS_TOP_SCREEN_H
#define MRAIL_TOOLS_TOP_SCREEN_H

/* Returns 1 if stdin and stdout are a terminal, and makes it deliver single
 * keys. */
int top_screen_open(void);

/* Returns the height of the terminal in rows, or 24 if it is unknown. */
unsigned top_screen_rows(void);

/* Waits up to *seconds_p seconds for a key, and subtracts the elapsed time.
 * Returns the key, 0 on timeout or if the terminal was resized, or -1 if the
 * process has been asked to exit or the terminal was closed. */
int top_screen_key(double *seconds_p);

/* Restores the settings of the terminal. */
void top_screen_close(void);

#endif
