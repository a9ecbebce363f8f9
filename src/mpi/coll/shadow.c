#include "config.h"
#include "mpi/coll/shadow.h"

#include "cuda/memory.h"

#include "base/util.h"

#include "ompi/constants.h"

#include <mpi.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

/* A buffer is not locked if its segments leave most of its range unused. */
#define SPARSE_FACTOR 2
#define SPARSE_BYTES (1u << 20)
/* Maximum number of copies in progress at the same time. */
#define NUM_COPIES 32u
/* The shadow and the buffer have the same alignment, up to this number of
 * bytes. */
#define ALIGNMENT 64u

/* ---- regions ---- */

static int compare_regions(const void *a, const void *b)
{
    const mca_coll_mrail_region_t *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Returns the range from the first to the last byte of a segment. The extent of
 * a datatype may be negative. */
static mca_coll_mrail_region_t
region_of(const mca_coll_mrail_dt_segment_t *segment)
{
    const opal_datatype_t *type = &segment->type->super;
    ptrdiff_t extent = type->ub - type->lb;
    ptrdiff_t last = (ptrdiff_t)(segment->count - 1) * extent;

    return (mca_coll_mrail_region_t){
        .first = segment->buffer + MRAIL_MIN(last, 0) + type->true_lb,
        .bytes = (size_t)((last < 0 ? -last : last) + type->true_ub -
                          type->true_lb)};
}

/* Joins the regions of an allocation that overlap or touch. Datatypes with gaps
 * often interleave the data of several ranks. The regions are sorted. */
static void join_regions(mca_coll_mrail_shadow_t *shadow)
{
    mca_coll_mrail_region_t *regions = shadow->regions;
    unsigned last = 0;

    for (unsigned i = 1; i < shadow->num_regions; ++i) {
        mca_coll_mrail_region_t *region = &regions[last];
        char *end = region->first + region->bytes;

        if (regions[i].first <= end && regions[i].base == region->base) {
            end = MRAIL_MAX(end, regions[i].first + regions[i].bytes);
            region->bytes = (size_t)(end - region->first);
        } else {
            regions[++last] = regions[i];
        }
    }
    shadow->num_regions = MRAIL_MIN(shadow->num_regions, last + 1);
}

/* ---- kind of memory ---- */

static int refuse(const mca_coll_mrail_region_t *region, const char *reason)
{
    fprintf(stderr, "mrail: coll: buffer of %zu bytes at %p: %s\n",
            region->bytes, (void *)region->first, reason);
    return MPI_ERR_BUFFER;
}

/* Determines the kind of memory of the regions of a shadow. */
typedef struct scan {
    mca_coll_mrail_shadow_t *shadow;
    mrail_cuda_range_t range; /* the memory that the last region is in */
    int has_host;             /* 1 if some region is host memory */
} scan_t;

/* Looks up the memory of a region, unless the last region was in the same
 * allocation. Returns 0, -EFAULT or -ERANGE. */
static int look(scan_t *scan, const mca_coll_mrail_region_t *region)
{
    const mrail_cuda_range_t *last = &scan->range;
    uint64_t first = (uintptr_t)region->first;

    return (last->memory != MRAIL_CUDA_HOST && first >= last->base &&
            first + region->bytes <= last->base + last->size)
               ? 0
               : mrail_cuda_recognise(region->first, region->bytes,
                                      &scan->range);
}

/* Returns the number of regions from `regions[0]` on that overlap or touch, and
 * sets *all_p to their union. */
static unsigned touching(const mca_coll_mrail_region_t *regions, unsigned num,
                         mca_coll_mrail_region_t *all_p)
{
    char *end = regions[0].first + regions[0].bytes;
    unsigned i = 1;

    for (; i < num && regions[i].first <= end; ++i) {
        end = MRAIL_MAX(end, regions[i].first + regions[i].bytes);
    }
    *all_p = (mca_coll_mrail_region_t){
        .first = regions[0].first, .bytes = (size_t)(end - regions[0].first)};
    return i;
}

/* Sets the base of `num` regions whose union is `all`, and updates the shadow.
 * Calls of the driver are slow, so the function first looks up all regions
 * together, and only if this fails each of them. */
static int find_bases(scan_t *scan, mca_coll_mrail_region_t *regions,
                      unsigned num, const mca_coll_mrail_region_t *all)
{
    mca_coll_mrail_shadow_t *shadow = scan->shadow;
    int ret = look(scan, all);

    if (ret < 0 && num == 1) {
        return refuse(all, mrail_cuda_range_text(ret));
    }
    if (ret < 0) {
        ret = OMPI_SUCCESS;
        for (unsigned i = 0; i < num && ret == OMPI_SUCCESS; ++i) {
            ret = find_bases(scan, &regions[i], 1, &regions[i]);
        }
        return ret;
    }
    if (scan->range.memory == MRAIL_CUDA_HOST) {
        scan->has_host = 1;
    } else {
        shadow->gpu = (!shadow->is_device || shadow->gpu == scan->range.device)
                          ? scan->range.device
                          : -1;
        shadow->is_device = 1;
    }
    for (unsigned i = 0; i < num; ++i) {
        regions[i].base = scan->range.base;
    }
    return OMPI_SUCCESS;
}

/* Returns 0 if the CPU cannot read the byte. If the kernel cannot check it,
 * returns 1. */
static int is_readable(const char *address)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {(void *)address, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 ||
           errno != EFAULT;
}

/* Rejects memory that the CPU cannot read. After device memory is freed, the
 * driver reports its address as host memory, and an access by the CPU would
 * crash the process. */
static int check_host(const mca_coll_mrail_region_t *region)
{
    return (region->base != 0 ||
            (is_readable(region->first) &&
             is_readable(region->first + region->bytes - 1)))
               ? OMPI_SUCCESS
               : refuse(region,
                        "neither host memory nor device memory; was it freed?");
}

/* Lists the regions of all nonempty blocks, by address. Returns OMPI_SUCCESS or
 * MPI_ERR_NO_MEM. */
static int list_regions(mca_coll_mrail_shadow_t *shadow,
                        const mca_coll_mrail_args_side_t *args)
{
    shadow->regions =
        calloc((size_t)args->num_peers + 1, sizeof(*shadow->regions));
    if (shadow->regions == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < args->num_peers; ++i) {
        mca_coll_mrail_dt_segment_t segment;

        mca_coll_mrail_args_block(args, i, &segment);
        if (segment.bytes > 0) {
            shadow->regions[shadow->num_regions++] = region_of(&segment);
            shadow->has_gaps |= segment.first == NULL;
        }
    }
    qsort(shadow->regions, shadow->num_regions, sizeof(*shadow->regions),
          compare_regions);
    return OMPI_SUCCESS;
}

static int shadow_init(mca_coll_mrail_shadow_t *shadow,
                       const mca_coll_mrail_args_side_t *args)
{
    scan_t scan = {.shadow = shadow, .range = {.memory = MRAIL_CUDA_HOST}};
    int ret = list_regions(shadow, args);
    mca_coll_mrail_region_t *regions = shadow->regions, all;
    unsigned num;

    for (unsigned i = 0; i < shadow->num_regions && ret == OMPI_SUCCESS;
         i += num) {
        num = touching(&regions[i], shadow->num_regions - i, &all);
        ret = find_bases(&scan, &regions[i], num, &all);
    }
    shadow->is_mixed = shadow->is_device && scan.has_host;
    if (ret == OMPI_SUCCESS && shadow->num_regions > 0) {
        join_regions(shadow);
        ret = check_host(&shadow->regions[0]);
    }
    return (ret == OMPI_SUCCESS && shadow->num_regions > 1)
               ? check_host(&shadow->regions[shadow->num_regions - 1])
               : ret;
}

static void shadow_cleanup(mca_coll_mrail_shadow_t *shadow)
{
    free(shadow->regions);
    mca_coll_mrail_block_put(&shadow->block);
    *shadow = (mca_coll_mrail_shadow_t){0};
}

/* ---- copies ---- */

/* Starts to copy a region to the shadow, or back. */
static int start_copy(const mca_coll_mrail_shadow_t *shadow, unsigned i,
                      int is_back, mca_coll_mrail_copy_t *copy)
{
    const mca_coll_mrail_region_t *region = &shadow->regions[i];
    char *host = region->first + shadow->shift;

    return mca_coll_mrail_copy_start(is_back ? region->first : host,
                                     is_back ? host : region->first,
                                     region->bytes, copy);
}

/* Copies all regions. After an error, still waits for the copies that have
 * started, because they use the shadow. */
static int copy_regions(const mca_coll_mrail_shadow_t *shadow, int is_back)
{
    mca_coll_mrail_copy_t copies[NUM_COPIES] = {{0}};
    int ret = 0;

    for (unsigned i = 0; i < shadow->num_regions + NUM_COPIES; ++i) {
        mca_coll_mrail_copy_t *copy = &copies[i % NUM_COPIES];
        int last = mca_coll_mrail_copy_wait(copy);

        ret = MRAIL_MIN(ret, last);
        if (i < shadow->num_regions && ret == 0) {
            ret = start_copy(shadow, i, is_back, copy);
        }
    }
    return (ret == 0) ? OMPI_SUCCESS : MPI_ERR_BUFFER;
}

/* Reserves the addresses of the shadow. */
static int shadow_reserve(mca_coll_mrail_shadow_t *shadow)
{
    const mca_coll_mrail_region_t *last =
        &shadow->regions[shadow->num_regions - 1];
    char *first = shadow->regions[0].first;
    size_t size = (size_t)(last->first + last->bytes - first) + ALIGNMENT;
    size_t bytes = 0;

    for (unsigned i = 0; i < shadow->num_regions; ++i) {
        bytes += shadow->regions[i].bytes;
    }
    if (mca_coll_mrail_block_get(size,
                                 size > SPARSE_FACTOR * bytes + SPARSE_BYTES,
                                 &shadow->block) < 0) {
        return MPI_ERR_NO_MEM;
    }
    shadow->shift = shadow->block.memory + (uintptr_t)first % ALIGNMENT - first;
    return OMPI_SUCCESS;
}

/* Copies the buffer to its shadow, which then replaces the buffer. */
static int shadow_fill(mca_coll_mrail_shadow_t *shadow, int is_input)
{
    mca_coll_mrail_block_lock(&shadow->block, shadow->gpu);
    shadow->is_filled = 1;
    return (is_input || shadow->has_gaps) ? copy_regions(shadow, 0)
                                          : OMPI_SUCCESS;
}

/* ---- both sides ---- */

int mca_coll_mrail_shadows_init(mca_coll_mrail_shadows_t *shadows,
                                const mca_coll_mrail_args_t *args)
{
    int ret;

    *shadows = (mca_coll_mrail_shadows_t){0};
    ret = shadow_init(&shadows->recv, &args->recv);
    return (ret == OMPI_SUCCESS && args->send.buffer != MPI_IN_PLACE)
               ? shadow_init(&shadows->send, &args->send)
               : ret;
}

/* Fills one side, and replaces its buffer. */
static int fill_side(mca_coll_mrail_shadow_t *shadow,
                     mca_coll_mrail_args_side_t *args, int is_input)
{
    args->buffer = (const char *)args->buffer + shadow->shift;
    return shadow_fill(shadow, is_input);
}

/* Returns 1 if the shadow must replace the buffer. */
static int must_fill(const mca_coll_mrail_shadow_t *shadow, int is_all)
{
    return shadow->is_device && !shadow->is_filled &&
           (is_all || shadow->has_gaps || shadow->is_mixed);
}

static int fill(mca_coll_mrail_shadows_t *shadows, mca_coll_mrail_args_t *args,
                int is_all)
{
    int is_in_place = args->send.buffer == MPI_IN_PLACE, ret = OMPI_SUCCESS;

    if (must_fill(&shadows->send, is_all)) {
        ret = fill_side(&shadows->send, &args->send, 1);
    }
    if (ret == OMPI_SUCCESS && must_fill(&shadows->recv, is_all)) {
        ret = fill_side(&shadows->recv, &args->recv, is_in_place);
    }
    return ret;
}

int mca_coll_mrail_shadows_reserve(mca_coll_mrail_shadows_t *shadows,
                                   mca_coll_mrail_args_t *args)
{
    int ret = OMPI_SUCCESS;

    if (shadows->send.is_device) {
        ret = shadow_reserve(&shadows->send);
    }
    if (shadows->recv.is_device && ret == OMPI_SUCCESS) {
        ret = shadow_reserve(&shadows->recv);
    }
    return (ret == OMPI_SUCCESS) ? fill(shadows, args, 0) : ret;
}

int mca_coll_mrail_shadows_fill(mca_coll_mrail_shadows_t *shadows,
                                mca_coll_mrail_args_t *args)
{
    return fill(shadows, args, 1);
}

int mca_coll_mrail_shadows_drain(const mca_coll_mrail_shadows_t *shadows)
{
    return shadows->recv.is_filled ? copy_regions(&shadows->recv, 1)
                                   : OMPI_SUCCESS;
}

void mca_coll_mrail_shadows_cleanup(mca_coll_mrail_shadows_t *shadows)
{
    shadow_cleanup(&shadows->send);
    shadow_cleanup(&shadows->recv);
}

void mca_coll_mrail_shadows_free(mca_coll_mrail_shadows_t *shadows)
{
    if (shadows != NULL) {
        mca_coll_mrail_shadows_cleanup(shadows);
        free(shadows);
    }
}
