/* mrail info: options. */
#include "config.h"
#include "tools/info.h"

#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "Usage: mrail info [--json]\n"
    "       mrail info --memory [--json] [RUN OPTION...]\n"
    "       mrail info --events [--dir DIR] [--job NAME] [--json]\n"
    "\n"
    "Shows the rails that UCX_MRAIL_* and this machine give: addresses, leaf,\n"
    "rate, NUMA node, the UDP source ports of the lanes and how they are set;\n"
    "and which ports are no rails, and why.\n"
    "\n"
    "  --memory  runs a job and shows what the transport takes in each rank:\n"
    "            buffers, queues, tables. Options of mrail run say which job;\n"
    "            without any it is -np 32 --soft 2x4\n"
    "  --events  what has happened to the rails of this user's processes on\n"
    "            this machine, those that run and those that were killed\n"
    "  --dir DIR   with --events: the folder of the telemetry pages instead of\n"
    "            UCX_MRAIL_TELEMETRY_DIR (/dev/shm)\n"
    "  --job NAME  with --events: only the processes of this job\n"
    "  --json    one object\n"
    "  -h, --help  this text\n"
    "\n"
    "Exit status: 0 done, 1 no rail or failure, 2 usage.\n";

/* The value of "--name VALUE" or "--name=VALUE" at argv[*i_p]; NULL: it is
 * another word. */
static const char *info_value(char **argv, int *i_p, const char *name)
{
    const char *value = mrail_tool_option(argv, i_p, name);

    if (value == mrail_tool_no_value) {
        mrail_tool_usage(MRAIL_INFO_VERB, "%s wants a value", name);
    }
    return value;
}

int main(int argc, char **argv)
{
    mrail_tool_args_t run = {0};
    int json = 0, memory = 0, events = 0;
    const char *dir = NULL, *job = NULL, *value;

    for (int i = 1; i < argc; ++i) {
        mrail_tool_version(argv[i]);
        if (mrail_tool_is_help(argv[i])) {
            fputs(help_text, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = 1;
        } else if (strcmp(argv[i], "--memory") == 0) {
            memory = 1;
        } else if (strcmp(argv[i], "--events") == 0) {
            events = 1;
        } else if ((value = info_value(argv, &i, "--dir")) != NULL) {
            dir = value;
        } else if ((value = info_value(argv, &i, "--job")) != NULL) {
            job = value;
        } else if (strcmp(argv[i], "--") == 0) {
            mrail_tool_usage(MRAIL_INFO_VERB, "the command is chosen by "
                                              "--memory: leave out '--'");
        } else {
            mrail_tool_args_add(&run, argv[i]);
        }
    }
    if (events && memory) {
        mrail_tool_usage(MRAIL_INFO_VERB, "--events and --memory are two "
                                          "reports: ask for one");
    }
    if (!events && (dir != NULL || job != NULL)) {
        mrail_tool_usage(MRAIL_INFO_VERB, "--dir and --job are about --events: "
                                          "give that, too");
    }
    if (!memory) {
        if (run.count > 0) {
            mrail_tool_usage(MRAIL_INFO_VERB, "unknown argument '%s'",
                             run.items[0]);
        }
        return events ? mrail_info_events(dir, job, json)
                      : mrail_info_rails(json);
    }
    if (run.count == 0) {
        mrail_tool_args_add(&run, "-np");
        mrail_tool_args_add(&run, "32");
        mrail_tool_args_add(&run, "--soft");
        mrail_tool_args_add(&run, "2x4");
    }
    return mrail_info_memory(&run, json);
}
