/* The kernels of this directory, compiled for software GPUs. */
#include "config.h"
#include "kernels/args.h"
#include "kernels/kernel.h"

#include "kernels/copy.inc"
#include "kernels/pattern.inc"
#include "kernels/relay.inc"
#include "kernels/wait.inc"

static const mrail_kernel_entry_t entries[] = {
    MRAIL_KERNEL_ENTRY(mrail_kernel_copy, mrail_kernel_copy_t),
    MRAIL_KERNEL_ENTRY(mrail_kernel_fill, mrail_kernel_pattern_t),
    MRAIL_KERNEL_ENTRY(mrail_kernel_relay, mrail_kernel_relay_t),
    MRAIL_KERNEL_ENTRY(mrail_kernel_verify, mrail_kernel_pattern_t),
    MRAIL_KERNEL_ENTRY(mrail_kernel_wait, mrail_kernel_wait_t)};

const mrail_kernel_image_t mrail_kernel_image = {
    .magic = MRAIL_KERNEL_MAGIC,
    .version = MRAIL_KERNEL_VERSION,
    .num_entries = sizeof(entries) / sizeof(entries[0]),
    .entries = entries};
