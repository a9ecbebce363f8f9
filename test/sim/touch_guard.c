#include "config.h"
#include "touch_guard.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul

static uint8_t *arena;
static size_t arena_size, used, least_size;
static int is_recording;
static uint32_t *block_of_page; /* number of the block, from 1 */
static uint32_t num_blocks;
static uint8_t *is_touched; /* by block */
static size_t watch_from, watch_to;
static volatile unsigned num_touched;

void *__real_calloc(size_t count, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *p);

void *__wrap_calloc(size_t count, size_t size)
{
    size_t bytes = count * size;
    size_t pages = (bytes + PAGE - 1) / PAGE;
    void *block;

    if (!is_recording || (bytes < least_size) ||
        (pages * PAGE > arena_size - used)) {
        return __real_calloc(count, size);
    }
    block = arena + used; /* the pages are zero, because none is used twice */
    ++num_blocks;
    for (size_t i = 0; i < pages; ++i) {
        block_of_page[used / PAGE + i] = num_blocks;
    }
    used += pages * PAGE;
    return block;
}

void __wrap_free(void *p)
{
    if ((arena == NULL) || ((uint8_t *)p < arena) ||
        ((uint8_t *)p >= arena + arena_size)) {
        __real_free(p);
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    uint8_t *address = info->si_addr;
    size_t offset = (size_t)(address - arena) / PAGE * PAGE;
    uint32_t block;

    if ((arena == NULL) || (address < arena + watch_from) ||
        (address >= arena + watch_to)) {
        signal(SIGSEGV, SIG_DFL); /* a fault of the program itself */
        return;
    }
    block = block_of_page[offset / PAGE];
    num_touched += !is_touched[block];
    is_touched[block] = 1;
    /* If this would make too many mappings, the whole range becomes
     * accessible. */
    if (mprotect(arena + offset, PAGE, PROT_READ | PROT_WRITE) != 0) {
        mprotect(arena + watch_from, watch_to - watch_from,
                 PROT_READ | PROT_WRITE);
    }
}

void touch_guard_record(size_t size, size_t least)
{
    arena_size = (size + PAGE - 1) / PAGE * PAGE;
    arena = mmap(NULL, arena_size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block_of_page = __real_calloc(arena_size / PAGE, sizeof(*block_of_page));
    is_touched = __real_calloc(arena_size / PAGE + 1, 1);
    if ((arena == MAP_FAILED) || (block_of_page == NULL) ||
        (is_touched == NULL)) {
        fputs("touch_guard: no memory\n", stderr);
        abort();
    }
    used = 0;
    num_blocks = 0;
    least_size = least;
    is_recording = 1;
}

size_t touch_guard_position(void)
{
    return used;
}

void touch_guard_stop(void)
{
    is_recording = 0;
}

void touch_guard_watch(size_t from, size_t to)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};

    watch_from = from;
    watch_to = to;
    num_touched = 0;
    memset(is_touched, 0, num_blocks + 1);
    sigaction(SIGSEGV, &action, NULL);
    if (to != from) {
        mprotect(arena + from, to - from, PROT_NONE);
    }
}

unsigned touch_guard_touched(void)
{
    if (watch_to != watch_from) {
        mprotect(arena + watch_from, watch_to - watch_from,
                 PROT_READ | PROT_WRITE);
    }
    watch_from = watch_to = 0;
    signal(SIGSEGV, SIG_DFL);
    return num_touched;
}

void touch_guard_end(void)
{
    if (arena != NULL) {
        munmap(arena, arena_size);
        arena = NULL;
    }
    __real_free(block_of_page);
    __real_free(is_touched);
    block_of_page = NULL;
    is_touched = NULL;
    is_recording = 0;
    used = arena_size = 0;
}
