/*
 * Compares the numbers, the layouts and the prototypes of src/softgpu with
 * cuda.h. abi.sh compiles it. If two prototypes of a function differ,
 * compilation fails.
 */
/* Also declares older variants of functions. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stddef.h>

#include "cuda/abi_values.h"

#include "cuda/abi_calls.h"

#ifndef ABI_CHECK_OFFSET
#define ABI_CHECK_OFFSET 0
#endif

#define ABI_CHECK_RESULT(_name, _value, _text)                                 \
    _Static_assert((int)(_name) == (_value) + ABI_CHECK_OFFSET, #_name);
CUDA_ABI_RESULTS(ABI_CHECK_RESULT)

#define ABI_CHECK_NUMBER(_name, _value)                                        \
    _Static_assert((int)(_name) == (_value), #_name);
CUDA_ABI_CONSTANTS(ABI_CHECK_NUMBER)
CUDA_ABI_MACROS(ABI_CHECK_NUMBER)

#define ABI_CHECK_SIZE(_type, _size)                                           \
    _Static_assert(sizeof(_type) == (_size), #_type);
CUDA_ABI_SIZES(ABI_CHECK_SIZE)

#define ABI_CHECK_PLACE(_type, _member, _offset)                               \
    _Static_assert(offsetof(_type, _member) == (_offset), #_type);
CUDA_ABI_OFFSETS(ABI_CHECK_PLACE)
