/*
 * mrail top on a terminal: its size, single keys, and the settings that single
 * keys need. They are undone when the process ends or is suspended.
 */
#ifndef MRAIL_TOOLS_TOP_SCREEN_H
#define MRAIL_TOOLS_TOP_SCREEN_H

/* 1 if stdin and stdout are a terminal, which then gives single keys. */
int top_screen_open(void);

/* Rows of the terminal; 24 if it does not say. */
unsigned top_screen_rows(void);

/* Waits for a key up to `seconds`, and takes what has passed off them. The key; 0:
 * none came, or the size has changed; -1: the process is asked to end. */
int top_screen_key(double *seconds_p);

/* Gives the terminal its settings back. */
void top_screen_close(void);

#endif
