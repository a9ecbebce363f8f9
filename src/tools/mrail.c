/*
 * The mrail command: `mrail VERB ...` executes the program mrail-VERB in the
 * libexec directory of this installation. The command itself knows only a
 * one-line description of each verb.
 */
#include "config.h"
#include "tools/tool.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "mrail-"

/* Entries of the verb list. Verbs that are not installed are not listed. */
static const struct {
    const char *verb;
    const char *summary;
} summaries[] = {
    {"acl", "switch rules for the segments of source ports"},
    {"bench", "validated benchmarks of MPI: alltoallv, p2p"},
    {"info", "show rails, parameters, memory and events"},
    {"lab", "build a fabric of network namespaces and run a command in it"},
    {"lanes", "show how many lanes a fabric without port rules needs"},
    {"plan", "plan an exchange and show what the plan gains"},
    {"run", "run an MPI program over mrail, on NICs or software rails"},
    {"simulate", "simulate exchanges over a fabric of switches"},
    {"soft", "run a program on software rails, and change the rails"},
    {"top", "show the traffic and the events of running jobs"},
    {"trace", "follow the chunks and messages of running jobs"},
};

static const char *summary_of(const char *verb)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(summaries); ++i) {
        if (strcmp(summaries[i].verb, verb) == 0) {
            return summaries[i].summary;
        }
    }
    return "";
}

static int is_verb(const struct dirent *entry)
{
    return strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0;
}

static void list_verbs(const char *dir, FILE *stream)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_verb, alphasort);

    if (count <= 0) {
        fprintf(stream, "  (no verb is installed in %s)\n", dir);
        return;
    }
    for (int i = 0; i < count; ++i) {
        const char *verb = entries[i]->d_name + strlen(PREFIX);

        fprintf(stream, "  %-8s %s\n", verb, summary_of(verb));
        free(entries[i]);
    }
    free(entries);
}

static void list_names(const char *dir)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, is_verb, alphasort);

    for (int i = 0; i < count; ++i) {
        const char *verb = entries[i]->d_name + strlen(PREFIX);

        printf("%s\t%s\n", verb, summary_of(verb));
    }
}

static void print_help(const char *dir, FILE *stream)
{
    fputs("Usage: mrail VERB [ARGUMENT...]\n"
          "       mrail help VERB...\n"
          "       mrail --version\n\n"
          "Many RDMA rails as one, for UCX and Open MPI.  Verbs:\n",
          stream);
    list_verbs(dir, stream);
    fputs("\nExit status: 0 done, 1 failure, 2 usage.\n", stream);
}

static int is_word(const char *verb)
{
    return *verb != '\0' && strchr(verb, '/') == NULL;
}

static int run_verb(const char *dir, char **argv)
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
    fprintf(stderr, "mrail: no verb '%s'; the verbs are:\n", argv[0]);
    list_verbs(dir, stderr);
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
    return run_verb(dir, args.items);
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
    if (strcmp(argv[1], "--list-verbs") == 0) { /* for the completions */
        list_names(dir);
        return 0;
    }
    if (argv[1][0] == '-') {
        fprintf(stderr, "mrail: unknown option '%s'\nTry: mrail --help\n",
                argv[1]);
        return MRAIL_TOOL_USAGE;
    }
    return run_verb(dir, argv + 1);
}
