/*
 * Connects the log sink of src/base/log.h to UCX's log.
 */
#include "config.h"
#include "uct/mrail_log.h"

#include "uct/mrail_compat.h"

#include "base/log.h"

static const ucs_log_level_t levels[] = {
    [MRAIL_LOG_ERROR] = UCS_LOG_LEVEL_ERROR,
    [MRAIL_LOG_WARN] = UCS_LOG_LEVEL_WARN,
    [MRAIL_LOG_INFO] = UCS_LOG_LEVEL_INFO,
    [MRAIL_LOG_DEBUG] = UCS_LOG_LEVEL_DEBUG,
    [MRAIL_LOG_TRACE] = UCS_LOG_LEVEL_TRACE,
};

static void sink(mrail_log_level_t level, const char *file, unsigned line,
                 const char *text)
{
    /* ucs_log() adds the file and line of this call. At debug and more verbose
     * levels, the text therefore also contains the caller's file and line. */
    if (level >= MRAIL_LOG_DEBUG) {
        ucs_log(levels[level], "mrail: %s (%s:%u)", text, file, line);
    } else {
        ucs_log(levels[level], "mrail: %s", text);
    }
}

void uct_mrail_log_attach(void)
{
    static int attached;
    mrail_log_level_t level = MRAIL_LOG_ERROR;

    if (attached) {
        return; /* the control thread may already be logging */
    }
    attached = 1;
    while (level < MRAIL_LOG_TRACE && ucs_log_is_enabled(levels[level + 1])) {
        ++level;
    }
    mrail_log_set(sink, level);
}
