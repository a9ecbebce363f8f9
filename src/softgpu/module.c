/*
 * Modules and functions, only for the images of src/kernels. A function is a
 * row of the table in its image. Grids and blocks have one dimension.
 */
#include "config.h"
#include "softgpu/launch.h"

#include <stdlib.h>
#include <string.h>

typedef struct module_func {
    uint64_t handle; /* 0 before the first use */
    const mrail_kernel_entry_t *entry;
    struct sgpu_module *module;
} module_func_t;

typedef struct sgpu_module {
    mrail_list_t list; /* ctx->modules */
    uint64_t handle;
    sgpu_ctx_t *ctx;
    const mrail_kernel_image_t *image;
    module_func_t funcs[]; /* in the order of the entries */
} sgpu_module_t;

CUresult cuModuleLoadData(CUmodule *module_p, const void *image)
{
    const mrail_kernel_image_t *table = image;
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_module_t *module;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((module_p == NULL) || (image == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    /* strncmp(3) is necessary, because the image may be a short string. */
    if ((strncmp(image, MRAIL_KERNEL_MAGIC, sizeof(table->magic)) != 0) ||
        (table->version != MRAIL_KERNEL_VERSION)) {
        return sgpu_leave(CUDA_ERROR_INVALID_IMAGE);
    }
    module = calloc(1, sizeof(*module) +
                           table->num_entries * sizeof(module->funcs[0]));
    if (module == NULL) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    module->ctx = ctx;
    module->image = table;
    module->handle = sgpu_handle_create(SGPU_HANDLE_MODULE, module);
    if (module->handle == 0) {
        free(module);
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    mrail_list_add_tail(&ctx->modules, &module->list);
    *module_p = (CUmodule)(uintptr_t)module->handle;
    return sgpu_leave(CUDA_SUCCESS);
}

/* The options control only the PTX compiler, so they have no effect. */
CUresult cuModuleLoadDataEx(CUmodule *module_p, const void *image,
                            unsigned int num, CUjit_option *options,
                            void **values)
{
    return cuModuleLoadData(module_p, image);
}

/* A launch has its own copies of the fields that it needs from the module. */
static void module_unload(sgpu_module_t *module)
{
    for (unsigned i = 0; i < module->image->num_entries; ++i) {
        if (module->funcs[i].handle != 0) {
            sgpu_handle_destroy(module->funcs[i].handle);
        }
    }
    sgpu_handle_destroy(module->handle);
    mrail_list_del(&module->list);
    free(module);
}

void sgpu_modules_unload(sgpu_ctx_t *ctx)
{
    while (!mrail_list_empty(&ctx->modules)) {
        module_unload(mrail_list_head(&ctx->modules, sgpu_module_t, list));
    }
}

CUresult cuModuleUnload(CUmodule handle)
{
    CUresult ret = sgpu_enter();
    sgpu_module_t *module;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    module = sgpu_handle_find(SGPU_HANDLE_MODULE, (uintptr_t)handle);
    if (module == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    module_unload(module);
    return sgpu_leave(CUDA_SUCCESS);
}

static CUresult module_find_func(sgpu_module_t *module, const char *name,
                                 module_func_t **func_p)
{
    for (unsigned i = 0; i < module->image->num_entries; ++i) {
        module_func_t *func = &module->funcs[i];

        if (strcmp(module->image->entries[i].name, name) != 0) {
            continue;
        }
        if (func->handle == 0) {
            func->entry = &module->image->entries[i];
            func->module = module;
            func->handle = sgpu_handle_create(SGPU_HANDLE_FUNC, func);
        }
        *func_p = func;
        return (func->handle != 0) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *func_p, CUmodule handle,
                             const char *name)
{
    CUresult ret = sgpu_enter();
    module_func_t *func;
    sgpu_module_t *module;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    module = sgpu_handle_find(SGPU_HANDLE_MODULE, (uintptr_t)handle);
    if ((func_p == NULL) || (name == NULL) || (module == NULL)) {
        return sgpu_leave((module == NULL) ? CUDA_ERROR_INVALID_HANDLE
                                           : CUDA_ERROR_INVALID_VALUE);
    }
    ret = module_find_func(module, name, &func);
    if (ret == CUDA_SUCCESS) {
        *func_p = (CUfunction)(uintptr_t)func->handle;
    }
    return sgpu_leave(ret);
}

/* Enters the library (sgpu_enter_ctx()), and finds the function. */
static CUresult func_enter(CUfunction handle, module_func_t **func_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *func_p = sgpu_handle_find(SGPU_HANDLE_FUNC, (uintptr_t)handle);
    return (*func_p != NULL) ? CUDA_SUCCESS
                             : sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncGetAttribute(int *value_p, CUfunction_attribute attribute,
                            CUfunction handle)
{
    /* values of the attributes from CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK on:
     * threads; bytes of static shared, constant and local memory; registers;
     * PTX and binary version */
    static const int values[] = {SGPU_THREADS_PER_BLOCK, 0, 0, 0, 32, 90, 90};
    module_func_t *func;
    CUresult ret = func_enter(handle, &func);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((value_p == NULL) || (attribute < 0) ||
        (attribute >= (int)MRAIL_ARRAY_SIZE(values))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *value_p = values[attribute];
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuFuncGetModule(CUmodule *module_p, CUfunction handle)
{
    module_func_t *func;
    CUresult ret = func_enter(handle, &func);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (module_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *module_p = (CUmodule)(uintptr_t)func->module->handle;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *num_p,
                                                     CUfunction handle,
                                                     int threads, size_t shared)
{
    module_func_t *func;
    CUresult ret = func_enter(handle, &func);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((num_p == NULL) || (threads <= 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *num_p =
        ((threads <= SGPU_THREADS_PER_BLOCK) && (shared <= SGPU_SHARED_BYTES))
            ? SGPU_BLOCKS_PER_MULTIPROCESSOR
            : 0;
    return sgpu_leave(CUDA_SUCCESS);
}

/* ---- launches ---- */

typedef struct launch_shape {
    unsigned grid[3], block[3];
    unsigned shared;
    int is_cooperative;
} launch_shape_t;

static CUresult launch_check(const launch_shape_t *shape)
{
    for (unsigned i = 0; i < 3; ++i) {
        if ((shape->grid[i] == 0) || (shape->block[i] == 0)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        if ((i > 0) && ((shape->grid[i] != 1) || (shape->block[i] != 1))) {
            return CUDA_ERROR_NOT_SUPPORTED;
        }
    }
    if ((shape->block[0] > SGPU_THREADS_PER_BLOCK) ||
        (shape->shared > SGPU_SHARED_BYTES) || (shape->grid[0] > INT32_MAX)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return (shape->is_cooperative && (shape->grid[0] > SGPU_BLOCKS))
               ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
               : CUDA_SUCCESS;
}

static CUresult launch_append(sgpu_stream_t *stream, const module_func_t *func,
                              const launch_shape_t *shape, void **params)
{
    sgpu_op_t *op = sgpu_op_create(SGPU_OP_KERNEL);
    CUresult ret;

    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    op->kernel.launch =
        sgpu_launch_create(stream, func->entry, params[0], shape->grid[0]);
    if (op->kernel.launch == NULL) {
        free(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ret = sgpu_stream_append(stream, op);
    if (ret != CUDA_SUCCESS) {
        sgpu_op_destroy(op);
    }
    return ret;
}

static CUresult launch_run(CUfunction handle, const launch_shape_t *shape,
                           CUstream stream_handle, void **params, void **extra)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_stream_t *stream;
    module_func_t *func;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    func = sgpu_handle_find(SGPU_HANDLE_FUNC, (uintptr_t)handle);
    ret = sgpu_stream_find(ctx, stream_handle, &stream);
    if ((ret != CUDA_SUCCESS) || (func == NULL) ||
        (func->module->ctx != stream->ctx)) {
        return sgpu_leave(CUDA_ERROR_INVALID_HANDLE);
    }
    ret = launch_check(shape);
    if (ret != CUDA_SUCCESS) {
        return sgpu_leave(ret);
    }
    if ((extra != NULL) || (params == NULL)) {
        return sgpu_leave((extra != NULL) ? CUDA_ERROR_NOT_SUPPORTED
                                          : CUDA_ERROR_INVALID_VALUE);
    }
    return sgpu_leave(launch_append(stream, func, shape, params));
}

CUresult cuLaunchKernel(CUfunction func, unsigned int grid_x,
                        unsigned int grid_y, unsigned int grid_z,
                        unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    const launch_shape_t shape = {
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 0};

    return launch_run(func, &shape, stream, params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction func, unsigned int grid_x,
                                   unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared,
                                   CUstream stream, void **params)
{
    const launch_shape_t shape = {
        {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, 1};

    return launch_run(func, &shape, stream, params, NULL);
}
