/*
 * Runs a stream that records when it stalls. For each received message or
 * exchange, the program prints "TIME BYTES", with TIME in seconds since the
 * epoch. It checks all data, while the calling script disturbs the rails.
 *
 * Usage: mpi_stream FILE SECONDS BYTES [alltoallv]
 *
 * Rank 0 sends messages of BYTES to the last rank; with "alltoallv", all ranks
 * exchange BYTES with each other instead. The last rank creates an empty FILE
 * at the first message, and writes the lines to it at the end. The program ends
 * after SECONDS, or when FILE.end exists.
 */
#include "config.h"

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WINDOW 8
#define ROUNDS 3
#define MAX_POINTS 1000000

typedef struct points {
    double *at;
    unsigned count;
} points_t;

static unsigned long wrong;
static const char *path;
static double seconds;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int write_points(const points_t *points, size_t bytes)
{
    FILE *file = fopen(path, "w");

    if (file == NULL) {
        perror(path);
        return 1;
    }
    for (unsigned i = 0; i < points->count; ++i) {
        fprintf(file, "%.6f %zu\n", points->at[i], bytes);
    }
    return fclose(file) != 0;
}

/* Returns 1 once the time is up. Only rank 0 decides. */
static int is_over(double start_s)
{
    char end[4096];

    snprintf(end, sizeof(end), "%s.end", path);
    return (now_s() >= start_s + seconds) || (access(end, F_OK) == 0);
}

static uint64_t word(uint64_t seed, size_t i)
{
    return (seed * 0x9e3779b97f4a7c15ull) ^ (i * 0xc2b2ae3d27d4eb4full);
}

static void fill(uint64_t *to, size_t words, uint64_t seed)
{
    for (size_t i = 0; i < words; ++i) {
        to[i] = word(seed, i);
    }
}

static void check(const uint64_t *from, size_t words, uint64_t seed)
{
    for (size_t i = 0; i < words; ++i) {
        wrong += (from[i] != word(seed, i));
    }
}

static void add_point(points_t *points)
{
    int rank, size;

    if (points->count == 0) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (rank == size - 1) {
            write_points(points, 0);
        }
    }
    if (points->count < MAX_POINTS) {
        points->at[points->count++] = now_s();
    }
}

/* Keeps WINDOW messages in flight. Messages are numbered from the start. */
static void stream(size_t words, points_t *points)
{
    MPI_Request requests[WINDOW];
    uint64_t *buffers[WINDOW];
    double start_s = now_s();
    uint64_t count = 0, done = 0, last = UINT64_MAX;
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (unsigned i = 0; i < WINDOW; ++i) {
        buffers[i] = malloc(8 * words);
    }
    while ((done < count) || (last == UINT64_MAX)) {
        while ((count < done + WINDOW) && (last == UINT64_MAX)) {
            uint64_t *buffer = buffers[count % WINDOW];
            MPI_Request *request = &requests[count % WINDOW];

            if (rank == 0) {
                fill(buffer, words, count);
                if (is_over(start_s)) {
                    buffer[0] = UINT64_MAX; /* marks the last message */
                    last = count;
                }
                MPI_Isend(buffer, (int)words, MPI_UINT64_T, size - 1, 1,
                          MPI_COMM_WORLD, request);
            } else {
                MPI_Irecv(buffer, (int)words, MPI_UINT64_T, 0, 1,
                          MPI_COMM_WORLD, request);
            }
            ++count;
        }
        MPI_Wait(&requests[done % WINDOW], MPI_STATUS_IGNORE);
        if (rank != 0) {
            uint64_t *buffer = buffers[done % WINDOW];

            add_point(points);
            if (buffer[0] == UINT64_MAX) {
                last = done;
                break;
            }
            check(buffer, words, done);
        }
        ++done;
    }
    for (uint64_t i = done + 1; (rank != 0) && (i < count); ++i) {
        MPI_Cancel(&requests[i % WINDOW]); /* a receive without a send */
        MPI_Wait(&requests[i % WINDOW], MPI_STATUS_IGNORE);
    }
    for (unsigned i = 0; i < WINDOW; ++i) {
        free(buffers[i]);
    }
}

typedef struct round {
    uint64_t *send;
    uint64_t *recv;
    MPI_Request request;
} round_t;

static uint64_t pair_seed(uint64_t round, int from, int to, int size)
{
    return round * 1000003 + (uint64_t)(from * size + to);
}

/* Keeps ROUNDS exchanges in flight. Exchanges are numbered from the start. */
static void exchange(size_t words, points_t *points)
{
    round_t rounds[ROUNDS];
    double start_s = now_s();
    uint64_t count = 0;
    int *counts, *places;
    int rank, size, more = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    counts = malloc((size_t)size * sizeof(int));
    places = malloc((size_t)size * sizeof(int));
    for (int i = 0; i < size; ++i) {
        /* A message from a rank to itself uses no rail. */
        counts[i] = (i == rank) ? 0 : (int)words;
        places[i] = i * (int)words;
    }
    for (unsigned i = 0; i < ROUNDS; ++i) {
        rounds[i].send = malloc(8 * words * (size_t)size);
        rounds[i].recv = malloc(8 * words * (size_t)size);
    }
    for (uint64_t done = 0; more || (done < count); ++done) {
        round_t *round = &rounds[done % ROUNDS];

        while (more && (count < done + ROUNDS)) {
            round_t *next = &rounds[count % ROUNDS];

            for (int i = 0; i < size; ++i) {
                fill(next->send + places[i], (size_t)counts[i],
                     pair_seed(count, rank, i, size));
            }
            MPI_Ialltoallv(next->send, counts, places, MPI_UINT64_T, next->recv,
                           counts, places, MPI_UINT64_T, MPI_COMM_WORLD,
                           &next->request);
            ++count;
            more = !is_over(start_s);
            MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
        MPI_Wait(&round->request, MPI_STATUS_IGNORE);
        add_point(points);
        for (int i = 0; i < size; ++i) {
            check(round->recv + places[i], (size_t)counts[i],
                  pair_seed(done, i, rank, size));
        }
    }
    for (unsigned i = 0; i < ROUNDS; ++i) {
        free(rounds[i].send);
        free(rounds[i].recv);
    }
    free(counts);
    free(places);
}

int main(int argc, char **argv)
{
    points_t points = {malloc(MAX_POINTS * sizeof(double)), 0};
    int rank, size, all, failed = 0;
    unsigned long wrong_all;
    size_t words;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if ((argc < 4) || (argc > 5) || (atof(argv[2]) <= 0) ||
        (atol(argv[3]) < 8) || (size < 2)) {
        fprintf(stderr, "Usage: mpi_stream FILE SECONDS BYTES [alltoallv]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    path = argv[1];
    seconds = atof(argv[2]);
    words = (size_t)atol(argv[3]) / 8;
    all = (argc == 5);
    if (all) {
        exchange(words, &points);
    } else if ((rank == 0) || (rank == size - 1)) {
        stream(words, &points);
    }
    MPI_Reduce(&wrong, &wrong_all, 1, MPI_UNSIGNED_LONG, MPI_SUM, size - 1,
               MPI_COMM_WORLD);
    if (rank == size - 1) {
        failed =
            write_points(&points, 8 * words * (all ? (size_t)(size - 1) : 1));
        if (wrong_all != 0) {
            fprintf(stderr, "%lu words are wrong\n", wrong_all);
            failed = 1;
        }
    }
    MPI_Bcast(&failed, 1, MPI_INT, size - 1, MPI_COMM_WORLD);
    MPI_Finalize();
    free(points.at);
    return failed;
}
