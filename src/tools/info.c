/* Parses the options of mrail info. */
#include "config.h"
#include "tools/info.h"

#include "tools/options.h"

#include <stdlib.h>
#include <string.h>

typedef struct info_options {
    mrail_tool_args_t run; /* options for `mrail run` */
    int json, memory, events, config;
    const char *dir, *job, *archive;
} info_options_t;

#define FIELD(_name) offsetof(info_options_t, _name)

static const mrail_option_t info_options[] = {
    {"--config", NULL,
     "show the parameters of the transport (UCX_MRAIL_*): value, default, "
     "meaning",
     MRAIL_OPTION_FLAG, FIELD(config), 0, 0, NULL},
    {"--memory", NULL,
     "run a job and show the transport's memory per rank: buffers, queues, "
     "tables. Options of mrail run select the job (-np 32 --soft 2x4)",
     MRAIL_OPTION_FLAG, FIELD(memory), 0, 0, NULL},
    {"--events", NULL,
     "show the rail events of this user's processes on this machine, including "
     "killed processes",
     MRAIL_OPTION_FLAG, FIELD(events), 0, 0, NULL},
    {"--dir", "DIR",
     "with --events, the telemetry directory, instead of "
     "UCX_MRAIL_TELEMETRY_DIR (/dev/shm)",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--job", "NAME", "with --events, show only the processes of this job",
     MRAIL_OPTION_TEXT, FIELD(job), 0, 0, NULL},
    {"--archive", "FILE",
     "with --events, show the events in a mrail collect archive",
     MRAIL_OPTION_TEXT, FIELD(archive), 0, 0, NULL},
    {"--json", NULL, "print one JSON object", MRAIL_OPTION_FLAG, FIELD(json), 0,
     0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--json]", "--config [--json]", "--memory [--json] [RUN OPTION...]",
    "--events [--dir DIR|--archive FILE] [--job NAME] [--json]", NULL};

static unsigned take_for_run(void *target, char **argv)
{
    info_options_t *options = target;

    mrail_tool_args_add(&options->run, argv[0]);
    return 1;
}

static const mrail_command_t command = {
    .name = MRAIL_INFO_COMMAND,
    .synopsis = synopsis,
    .about =
        "Shows the rails of this machine with the current UCX_MRAIL_* settings:\n"
        "addresses, leaf, rate, NUMA node, the UDP source ports of the lanes and how\n"
        "they are set. Also shows why other ports are not rails, and how the\n"
        "rails access the memory of GPUs.\n",
    .options = info_options,
    .epilog =
        "Exit status: 0 done, 1 no rail or failure, 2 usage or an invalid parameter.\n",
    .other = take_for_run};

static void check_options(const info_options_t *options)
{
    if (options->events + options->memory + options->config > 1) {
        mrail_tool_usage(
            MRAIL_INFO_COMMAND,
            "only one of --config, --memory and --events can be given");
    }
    if (!options->events && (options->dir != NULL || options->job != NULL ||
                             options->archive != NULL)) {
        mrail_tool_usage(MRAIL_INFO_COMMAND,
                         "--dir, --job and --archive require --events");
    }
    if (options->archive != NULL && options->dir != NULL) {
        mrail_tool_usage(MRAIL_INFO_COMMAND,
                         "--archive cannot be combined with --dir");
    }
    if (!options->memory && options->run.count > 0) {
        mrail_tool_usage(MRAIL_INFO_COMMAND, "unknown argument '%s'",
                         options->run.items[0]);
    }
}

static int report_memory(info_options_t *options)
{
    static const char *const words[] = {"-np", "32", "--soft", "2x4"};

    if (options->run.count == 0) {
        for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(words); ++i) {
            mrail_tool_args_add(&options->run, words[i]);
        }
    }
    return mrail_info_memory(&options->run, options->json);
}

int main(int argc, char **argv)
{
    info_options_t options = {.json = 0};

    mrail_options_parse(&command, argv, &options);
    check_options(&options);
    if (options.config) {
        return mrail_info_config(options.json);
    }
    if (options.memory) {
        return report_memory(&options);
    }
    return options.events ? mrail_info_events(options.dir, options.job,
                                              options.archive, options.json)
                          : mrail_info_rails(options.json);
}
