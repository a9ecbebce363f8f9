/* The kernels of this directory for GPUs. To compile them, run
 * nvcc --ptx -I src src/kernels/kernels.cu */
#include "kernels/args.h"
#include "kernels/kernel.h"

#include "kernels/copy.inc"
#include "kernels/pattern.inc"
#include "kernels/relay.inc"
#include "kernels/wait.inc"
