/*
 * Runs a fuzz target without libFuzzer: first on every file of its corpus, then
 * on a bounded number of random mutations of them, with a fixed seed.
 *
 * usage: fuzz_NAME [FILE...]
 *
 * Without arguments, it runs the corpus, $srcdir/test/fuzz/corpus/NAME, and
 * MRAIL_FUZZ_MUTATIONS (100000) mutated inputs with seed MRAIL_FUZZ_SEED (1).
 * With arguments, it runs only those files. An input that crashes or takes
 * longer than LIMIT_S is saved as fuzz-finding-NAME in the current directory.
 */
#include "config.h"
#include "base/rng.h"
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define MAX_FILES 512
#define MAX_BYTES 4096
#define LIMIT_S 20

typedef struct input {
    uint8_t data[MAX_BYTES];
    size_t size;
} input_t;

static input_t *corpus;
static unsigned num_inputs;
static const char *target;
/* The current input, for the signal handler. */
static const uint8_t *volatile running;
static volatile size_t running_size;

/* The sanitizers call `callback` before they terminate the process. Without a
 * sanitizer, this function does not exist. */
void __sanitizer_set_death_callback(void (*callback)(void))
    __attribute__((weak));

static void write_text(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text));
}

static void keep_finding(int sig)
{
    char path[128] = "fuzz-finding-";
    int fd;

    strncat(path, target, sizeof(path) - strlen(path) - 1);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if ((fd >= 0) && (running != NULL)) {
        (void)!write(fd, running, running_size);
    }
    write_text(1, "not ok - ");
    write_text(1, target);
    write_text(1, (sig == SIGALRM) ? ": an input takes too long"
                                   : ": an input crashes");
    write_text(1, "; replay: ./fuzz_");
    write_text(1, target);
    write_text(1, " ");
    write_text(1, path);
    write_text(1, "\n");
}

static void on_signal(int sig)
{
    keep_finding(sig);
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void on_death(void)
{
    keep_finding(0);
}

static void run(const uint8_t *data, size_t size)
{
    running = data;
    running_size = size;
    LLVMFuzzerTestOneInput(data, size);
}

static int load(const char *path, input_t *input)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        return -errno;
    }
    n = read(fd, input->data, sizeof(input->data));
    close(fd);
    input->size = (n < 0) ? 0 : (size_t)n;
    return (n < 0) ? -EIO : 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Loads the files in the order of their names, so that the seed determines the
 * whole run. */
static int load_corpus(const char *dir)
{
    struct dirent *entry;
    char *names[MAX_FILES], path[2048];
    unsigned count = 0;
    DIR *d = opendir(dir);

    if (d == NULL) {
        return -errno;
    }
    while ((count < MAX_FILES) && ((entry = readdir(d)) != NULL)) {
        if (entry->d_name[0] != '.') {
            names[count++] = strdup(entry->d_name);
        }
    }
    closedir(d);
    qsort(names, count, sizeof(names[0]), compare_names);
    corpus = calloc(MRAIL_MAX(count, 1u), sizeof(*corpus));
    for (unsigned i = 0; (corpus != NULL) && (i < count); ++i) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        num_inputs += (load(path, &corpus[num_inputs]) == 0);
        free(names[i]);
    }
    return 0;
}

static void change_once(mrail_rng_t *rng, input_t *in)
{
    static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff, 0x20, 0x0f};
    uint32_t at = mrail_rng_below(rng, (uint32_t)in->size + 1);
    uint32_t n = 1 + mrail_rng_below(rng, 8);
    const input_t *other;

    n = (uint32_t)MRAIL_MIN(n, in->size - at);
    switch (mrail_rng_below(rng, 6)) {
    case 0:
        for (uint32_t i = 0; i < n; ++i) {
            in->data[at + i] = (uint8_t)mrail_rng_next(rng);
        }
        break;
    case 1:
        for (uint32_t i = 0; i < n; ++i) {
            in->data[at + i] =
                edges[mrail_rng_below(rng, MRAIL_ARRAY_SIZE(edges))];
        }
        break;
    case 2:
        if (n != 0) {
            in->data[at] ^= (uint8_t)(1u << mrail_rng_below(rng, 8));
        }
        break;
    case 3: /* removes a part */
        memmove(in->data + at, in->data + at + n, in->size - at - n);
        in->size -= n;
        break;
    case 4: /* appends the end of another input */
        other = &corpus[mrail_rng_below(rng, num_inputs)];
        if (at < other->size) {
            memcpy(in->data + at, other->data + at, other->size - at);
            in->size = other->size;
        }
        break;
    case 5: /* repeats a part */
        n = (uint32_t)MRAIL_MIN(in->size - at, (sizeof(in->data) - in->size));
        memmove(in->data + at + n, in->data + at, in->size - at);
        in->size += n;
        break;
    }
}

static void mutate(uint64_t seed, unsigned long count)
{
    static input_t in;
    mrail_rng_t rng;

    mrail_rng_init(&rng, seed);
    for (unsigned long i = 0; i < count; ++i) {
        uint32_t changes = 1 + mrail_rng_below(&rng, 6);

        in = corpus[mrail_rng_below(&rng, num_inputs)];
        while (changes-- > 0) {
            change_once(&rng, &in);
        }
        /* A copy of exactly this size, so that the sanitizer detects reads past
         * the end. */
        uint8_t *copy = malloc(in.size + 1);

        if (copy != NULL) {
            memcpy(copy, in.data, in.size);
            run(copy, in.size);
            free(copy);
        }
        if ((i & 0xff) == 0) {
            alarm(LIMIT_S);
        }
    }
}

static unsigned long number(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);

    return (text != NULL) ? strtoul(text, NULL, 0) : otherwise;
}

static int run_corpus(void)
{
    const char *srcdir = getenv("srcdir");
    unsigned long seed = number("MRAIL_FUZZ_SEED", 1);
    unsigned long count = number("MRAIL_FUZZ_MUTATIONS", 100000);
    char dir[1024];

    printf("1..2\n");
    fflush(stdout);
    snprintf(dir, sizeof(dir), "%s/test/fuzz/corpus/%s",
             (srcdir != NULL) ? srcdir : "..", target);
    if ((load_corpus(dir) != 0) || (num_inputs == 0)) {
        printf("not ok - %s: no corpus in %s\n", target, dir);
        return 1;
    }
    for (unsigned i = 0; i < num_inputs; ++i) {
        alarm(LIMIT_S);
        run(corpus[i].data, corpus[i].size);
    }
    printf("ok - %s: %u inputs\n", target, num_inputs);
    fflush(stdout);
    mutate(seed, count);
    printf("ok - %s: %lu mutated inputs, seed %lu\n", target, count, seed);
    free(corpus);
    return 0;
}

int main(int argc, char **argv)
{
    static const int fatal[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM};
    const char *name = strrchr(argv[0], '/');

    target = strstr((name != NULL) ? name : argv[0], "fuzz_");
    if (target == NULL) {
        fprintf(stderr, "%s: the program's name must contain 'fuzz_'\n",
                argv[0]);
        return 2;
    }
    target += strlen("fuzz_");
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(fatal); ++i) {
        signal(fatal[i], on_signal);
    }
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(on_death);
    }
    if (argc == 1) {
        return run_corpus();
    }
    for (int i = 1; i < argc; ++i) {
        static input_t in;

        if (load(argv[i], &in) != 0) {
            fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
            return 2;
        }
        run(in.data, in.size);
        printf("%s: %zu bytes, no finding\n", argv[i], in.size);
    }
    return 0;
}
