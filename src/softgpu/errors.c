/* Names and descriptions of result codes. */
#include "config.h"
#include "cuda/abi.h"

#include "base/util.h"

/* Checks the structure layouts in abi_values.h. */
#define ERRORS_SIZE(_type, _size)                                              \
    _Static_assert(sizeof(_type) == (_size), #_type);
CUDA_ABI_SIZES(ERRORS_SIZE)
#define ERRORS_OFFSET(_type, _member, _offset)                                 \
    _Static_assert(offsetof(_type, _member) == (_offset), #_type);
CUDA_ABI_OFFSETS(ERRORS_OFFSET)

static const struct {
    CUresult result;
    const char *name, *text;
} results[] = {
#define ERRORS_ROW(_name, _value, _text) {_name, #_name, _text},
    CUDA_ABI_RESULTS(ERRORS_ROW)
#undef ERRORS_ROW
};

static int errors_find(CUresult error, unsigned *index_p)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(results); ++i) {
        if (results[i].result == error) {
            *index_p = i;
            return 1;
        }
    }
    return 0;
}

CUresult cuGetErrorString(CUresult error, const char **text_p)
{
    unsigned i;

    if ((text_p == NULL) || !errors_find(error, &i)) {
        if (text_p != NULL) {
            *text_p = NULL;
        }
        return CUDA_ERROR_INVALID_VALUE;
    }
    *text_p = results[i].text;
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **name_p)
{
    unsigned i;

    if ((name_p == NULL) || !errors_find(error, &i)) {
        if (name_p != NULL) {
            *name_p = NULL;
        }
        return CUDA_ERROR_INVALID_VALUE;
    }
    *name_p = results[i].name;
    return CUDA_SUCCESS;
}
