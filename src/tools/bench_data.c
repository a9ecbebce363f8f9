#include "config.h"
#include "tools/bench.h"

#include "base/util.h"
#include "kernels/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void *mrail_bench_allocate(size_t size)
{
    void *memory = malloc(MRAIL_MAX(size, 1));

    if (memory == NULL) {
        fprintf(stderr, "mrail bench: out of memory (%zu bytes)\n", size);
        exit(1); /* mpirun kills the other ranks */
    }
    return memory;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double mrail_bench_median(double *values, unsigned count)
{
    qsort(values, count, sizeof(*values), compare_doubles);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double mrail_bench_percentile(double *values, unsigned count, unsigned percent)
{
    uint64_t rank = MRAIL_DIV_ROUND_UP((uint64_t)count * percent, 100);

    qsort(values, count, sizeof(*values), compare_doubles);
    return values[MRAIL_MAX(rank, 1) - 1];
}

void mrail_bench_print_iterations(const mrail_bench_options_t *options)
{
    printf(", median of %u", options->iterations);
    if (options->small_iterations != 0) {
        printf(" (%u up to 8 KiB)", options->small_iterations);
    }
}

void mrail_bench_fill(void *buffer, size_t length, uint64_t seed)
{
    char *bytes = buffer;
    size_t words = length / sizeof(uint64_t);
    uint64_t word;

    for (size_t i = 0; i < words; ++i) {
        word = mrail_kernel_word(seed, i);
        memcpy(bytes + i * sizeof(word), &word, sizeof(word));
    }
    word = mrail_kernel_word(seed, words);
    memcpy(bytes + words * sizeof(word), &word, length % sizeof(word));
}

/* Returns the offset of the first byte in which a and b differ. They must
 * differ. */
static size_t first_difference(const void *a, const void *b)
{
    const char *x = a, *y = b;
    size_t i = 0;

    while (x[i] == y[i]) {
        ++i;
    }
    return i;
}

size_t mrail_bench_check(const void *buffer, size_t length, uint64_t seed)
{
    const char *bytes = buffer;
    size_t words = length / sizeof(uint64_t);
    size_t tail = length % sizeof(uint64_t);
    uint64_t word;

    for (size_t i = 0; i < words; ++i) {
        word = mrail_kernel_word(seed, i);
        if (memcmp(bytes + i * sizeof(word), &word, sizeof(word)) != 0) {
            return i * sizeof(word) +
                   first_difference(bytes + i * sizeof(word), &word);
        }
    }
    word = mrail_kernel_word(seed, words);
    if (memcmp(bytes + words * sizeof(word), &word, tail) != 0) {
        return words * sizeof(word) +
               first_difference(bytes + words * sizeof(word), &word);
    }
    return length;
}

uint64_t mrail_bench_seed(unsigned from, unsigned to, uint64_t iteration)
{
    return mrail_mix64(mrail_mix64(((uint64_t)from << 32) | to) + iteration);
}

double mrail_bench_cpu_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double mrail_bench_load(const mrail_bench_result_t *result)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (result->wall_s <= 0 || cpus < 1) {
        return 0;
    }
    return result->cpu_s / (result->wall_s * (double)cpus);
}

/* Returns 1 if the list contains only mrail and, optionally, "self". With
 * shared memory in the list, it would be unclear which transport carried the
 * bytes. */
static int only_mrail(const char *tls)
{
    static const char *const names[] = {"mrail", "self"};
    int found = 0;

    for (const char *p = tls; p != NULL && *p != '\0';) {
        size_t length = strcspn(p, ",");
        unsigned i = 0;

        while (i < 2 && (strlen(names[i]) != length ||
                         strncmp(p, names[i], length) != 0)) {
            ++i;
        }
        if (i == 2) {
            return 0;
        }
        found |= (i == 0);
        p += length + ((p[length] == ',') ? 1 : 0);
    }
    return found;
}

void mrail_bench_transport(char *name, size_t size)
{
    const char *pml = getenv("OMPI_MCA_pml");
    const char *tls = getenv("UCX_TLS");

    if (pml == NULL || strcmp(pml, "ucx") != 0) {
        snprintf(name, size, "ompi:%s", (pml != NULL) ? pml : "default");
    } else if (only_mrail(tls)) {
        snprintf(name, size, "mrail");
    } else {
        snprintf(name, size, "ucx:%s", (tls != NULL) ? tls : "all");
    }
}

const char *mrail_bench_share_text(double share, char text[16])
{
    if (share < 0) {
        return "-";
    }
    snprintf(text, 16, "%.1f %%", share * 100);
    return text;
}

void mrail_bench_share_json(mrail_json_t *json, const char *key, double share)
{
    if (share < 0) {
        mrail_json_null(json, key);
    } else {
        mrail_json_fixed(json, key, share, 4);
    }
}

#define PROGRESS_S 10

void mrail_bench_progress(int rank, unsigned done, unsigned total)
{
    static time_t last;
    struct timespec now;

    if (rank != 0) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (done == 0) {
        last = now.tv_sec;
    } else if (now.tv_sec - last >= PROGRESS_S) {
        last = now.tv_sec;
        fprintf(stderr, "mrail bench: iteration %u of %u\n", done + 1, total);
    }
}
