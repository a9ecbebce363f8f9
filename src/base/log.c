#include "config.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const level_names[] = {
    [MRAIL_LOG_ERROR] = "error", [MRAIL_LOG_WARN] = "warn",
    [MRAIL_LOG_INFO] = "info",   [MRAIL_LOG_DEBUG] = "debug",
    [MRAIL_LOG_TRACE] = "trace",
};

mrail_log_level_t mrail_log_level = MRAIL_LOG_WARN;
static mrail_log_func_t log_func;

void mrail_log_set(mrail_log_func_t func, mrail_log_level_t level)
{
    log_func = func;
    mrail_log_level = level;
}

int mrail_log_level_parse(const char *name)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(level_names); ++i) {
        if (strcasecmp(name, level_names[i]) == 0) {
            return (int)i;
        }
    }
    return -1;
}

void mrail_log_write(mrail_log_level_t level, const char *file, unsigned line,
                     const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);

    if (log_func != NULL) {
        log_func(level, file, line, text);
    } else {
        fprintf(stderr, "mrail: %s: %s\n", level_names[level], text);
    }
}
