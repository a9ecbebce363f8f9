/*
 * The mrail front end executes mrail-COMMAND from the libexec directory of this
 * installation for `mrail COMMAND ...`. Only the one-line summaries of the
 * commands are built in.
 */
#include "config.h"
#include "tools/tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "mrail-"

/* All commands. The help text lists only the installed commands. */
static const struct {
    const char *command;
    const char *summary;
} summaries[] = {
    {"acl", "write and check switch rules for source-port segments"},
    {"bench", "run MPI benchmarks that check every byte"},
    {"collect", "gather telemetry from the hosts of a job into one archive"},
    {"diagnose", "report which rank, rail or path delays a job"},
    {"exporter", "serve the telemetry of running jobs to Prometheus"},
    {"info", "show rails, parameters, memory and events"},
    {"lab", "run a command in a fabric of network namespaces"},
    {"lanes", "show how many lanes a fabric without port rules needs"},
    {"plan", "plan an exchange and show how much time the plan saves"},
    {"report", "write an HTML page about a job"},
    {"run", "run an MPI program over mrail, on NICs or software rails"},
    {"simulate", "simulate exchanges over a switch fabric at flow level"},
    {"soft", "run a program on software rails, and change the rails"},
    {"top", "show the traffic and events of running jobs"},
    {"trace", "follow the chunks and messages of running jobs"},
};

static const char *summary_of(const char *command)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(summaries); ++i) {
        if (strcmp(summaries[i].command, command) == 0) {
            return summaries[i].summary;
        }
    }
    return "";
}

static int is_command(const struct dirent *entry)
{
    return strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0;
}

static void list_commands(const char *dir, FILE *stream)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_command, alphasort);

    if (count <= 0) {
        fprintf(stream, "  (no commands are installed in %s)\n", dir);
        return;
    }
    for (int i = 0; i < count; ++i) {
        const char *command = entries[i]->d_name + strlen(PREFIX);

        fprintf(stream, "  %-8s %s\n", command, summary_of(command));
        free(entries[i]);
    }
    free(entries);
}

static void list_names(const char *dir)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_command, alphasort);

    for (int i = 0; i < count; ++i) {
        const char *command = entries[i]->d_name + strlen(PREFIX);

        printf("%s\t%s\n", command, summary_of(command));
    }
}

static void print_help(const char *dir, FILE *stream)
{
    fputs("Usage: mrail COMMAND [ARGUMENT...]\n"
          "       mrail help COMMAND...\n"
          "       mrail --version\n\n"
          "Many RDMA rails as one, for UCX and Open MPI.  Commands:\n",
          stream);
    list_commands(dir, stream);
    fputs("\nExit status: 0 done, 1 failure, 2 usage.\n", stream);
}

static int is_word(const char *command)
{
    return *command != '\0' && strchr(command, '/') == NULL;
}

static int run_command(const char *dir, char **argv)
{
    char path[MRAIL_TOOL_PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/" PREFIX "%s", dir, argv[0]);
    if (is_word(argv[0])) {
        execv(path, argv);
    } else {
        errno = ENOENT;
    }
    if (errno != ENOENT) {
        fprintf(stderr, "mrail: %s: %s\n", path, strerror(errno));
        return MRAIL_TOOL_FAILED;
    }
    fprintf(stderr, "mrail: no command '%s'; the commands are:\n", argv[0]);
    list_commands(dir, stderr);
    return MRAIL_TOOL_USAGE;
}

/* Runs `mrail help soft ctl` as `mrail soft ctl --help`. */
static int help_on(const char *dir, char **words)
{
    mrail_tool_args_t args = {0};

    for (; *words != NULL; ++words) {
        mrail_tool_args_add(&args, *words);
    }
    mrail_tool_args_add(&args, "--help");
    return run_command(dir, args.items);
}

int main(int argc, char **argv)
{
    char dir[MRAIL_TOOL_PATH_MAX];

    mrail_tool_installed(MRAIL_PKGLIBEXECDIR, dir, sizeof(dir));
    if (argc < 2) {
        print_help(dir, stderr);
        return MRAIL_TOOL_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) {
        return help_on(dir, argv + 2);
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_help(dir, stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(PACKAGE_STRING);
        return 0;
    }
    if (strcmp(argv[1], "--list-commands") == 0) { /* used by the completions */
        list_names(dir);
        return 0;
    }
    if (argv[1][0] == '-') {
        fprintf(stderr, "mrail: unknown option '%s'\nTry: mrail --help\n",
                argv[1]);
        return MRAIL_TOOL_USAGE;
    }
    return run_command(dir, argv + 1);
}
