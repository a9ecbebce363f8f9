#include "config.h"
#include "touch_trap.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096ul

static uint8_t *memory;
static size_t memory_size, used, least_size;
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
        (pages * PAGE > memory_size - used)) {
        return __real_calloc(count, size);
    }
    block = memory + used; /* the pages are zero, because none is reused */
    ++num_blocks;
    for (size_t i = 0; i < pages; ++i) {
        block_of_page[used / PAGE + i] = num_blocks;
    }
    used += pages * PAGE;
    return block;
}

void __wrap_free(void *p)
{
    if ((memory == NULL) || ((uint8_t *)p < memory) ||
        ((uint8_t *)p >= memory + memory_size)) {
        __real_free(p);
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    uint8_t *address = info->si_addr;
    size_t offset = (size_t)(address - memory) / PAGE * PAGE;
    uint32_t block;

    if ((memory == NULL) || (address < memory + watch_from) ||
        (address >= memory + watch_to)) {
        signal(SIGSEGV, SIG_DFL); /* a fault in the program itself */
        return;
    }
    block = block_of_page[offset / PAGE];
    num_touched += !is_touched[block];
    is_touched[block] = 1;
    /* If this would make too many mappings, the whole range becomes
     * accessible. */
    if (mprotect(memory + offset, PAGE, PROT_READ | PROT_WRITE) != 0) {
        mprotect(memory + watch_from, watch_to - watch_from,
                 PROT_READ | PROT_WRITE);
    }
}

void touch_trap_record(size_t size, size_t least)
{
    memory_size = (size + PAGE - 1) / PAGE * PAGE;
    memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block_of_page = __real_calloc(memory_size / PAGE, sizeof(*block_of_page));
    is_touched = __real_calloc(memory_size / PAGE + 1, 1);
    if ((memory == MAP_FAILED) || (block_of_page == NULL) ||
        (is_touched == NULL)) {
        fputs("touch_trap: no memory\n", stderr);
        abort();
    }
    used = 0;
    num_blocks = 0;
    least_size = least;
    is_recording = 1;
}

size_t touch_trap_position(void)
{
    return used;
}

void touch_trap_stop(void)
{
    is_recording = 0;
}

void touch_trap_watch(size_t from, size_t to)
{
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_NODEFER};

    watch_from = from;
    watch_to = to;
    num_touched = 0;
    memset(is_touched, 0, num_blocks + 1);
    sigaction(SIGSEGV, &action, NULL);
    if (to != from) {
        mprotect(memory + from, to - from, PROT_NONE);
    }
}

unsigned touch_trap_touched(void)
{
    if (watch_to != watch_from) {
        mprotect(memory + watch_from, watch_to - watch_from,
                 PROT_READ | PROT_WRITE);
    }
    watch_from = watch_to = 0;
    signal(SIGSEGV, SIG_DFL);
    return num_touched;
}

void touch_trap_end(void)
{
    if (memory != NULL) {
        munmap(memory, memory_size);
        memory = NULL;
    }
    __real_free(block_of_page);
    __real_free(is_touched);
    block_of_page = NULL;
    is_touched = NULL;
    is_recording = 0;
    used = memory_size = 0;
}
