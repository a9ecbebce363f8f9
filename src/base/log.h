/*
 * Libraries log with mrail_error(), mrail_warn() and so on. The program decides
 * once where the lines go: the UCX transport passes them to UCX's log, and
 * tools leave them on stderr. Events that may occur for every packet must be
 * counted instead of logged.
 */
#ifndef MRAIL_BASE_LOG_H
#define MRAIL_BASE_LOG_H

#include "base/util.h"

typedef enum mrail_log_level {
    MRAIL_LOG_ERROR,
    MRAIL_LOG_WARN,
    MRAIL_LOG_INFO,
    MRAIL_LOG_DEBUG,
    MRAIL_LOG_TRACE
} mrail_log_level_t;

/* Receives one line without a newline. Any thread may call it. */
typedef void (*mrail_log_func_t)(mrail_log_level_t level, const char *file,
                                 unsigned line, const char *text);

extern mrail_log_level_t mrail_log_level;

/* A NULL func means stderr. Call this before threads start. */
void mrail_log_set(mrail_log_func_t func, mrail_log_level_t level);

/* Parses "error" to "trace", ignoring case. Returns -1 for other names. */
int mrail_log_level_parse(const char *name);

void mrail_log_write(mrail_log_level_t level, const char *file, unsigned line,
                     const char *fmt, ...) MRAIL_PRINTF(4, 5);

#define mrail_log(_level, ...)                                                 \
    do {                                                                       \
        const mrail_log_level_t mrail_log_own = (_level);                      \
                                                                               \
        if (MRAIL_UNLIKELY(mrail_log_own <= mrail_log_level)) {                \
            mrail_log_write(mrail_log_own, __FILE__, __LINE__, __VA_ARGS__);   \
        }                                                                      \
    } while (0)

#define mrail_error(...) mrail_log(MRAIL_LOG_ERROR, __VA_ARGS__)
#define mrail_warn(...) mrail_log(MRAIL_LOG_WARN, __VA_ARGS__)
#define mrail_info(...) mrail_log(MRAIL_LOG_INFO, __VA_ARGS__)
#define mrail_debug(...) mrail_log(MRAIL_LOG_DEBUG, __VA_ARGS__)
#define mrail_trace(...) mrail_log(MRAIL_LOG_TRACE, __VA_ARGS__)

#endif
