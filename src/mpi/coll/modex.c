#include "config.h"
#include "mpi/coll/modex.h"

#include "base/grow.h"
#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/group/group.h"
#include "opal/util/proc.h"
#if OMPI_MAJOR_VERSION >= 5
#include "opal/mca/pmix/pmix-internal.h"
#else
#include "opal/mca/pmix/pmix.h"
#endif

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const mca_coll_mrail_rank_entry_t absent = {.version =
                                                       MCA_COLL_MRAIL_ABSENT};
static const mca_coll_mrail_rank_entry_t foreign = {.version =
                                                        MCA_COLL_MRAIL_FOREIGN};

static char key[] = "mrail.coll.entry";

static mca_coll_mrail_rank_entry_t mine = {.version = MCA_COLL_MRAIL_ABSENT};

/* Entries of this job by rank in MPI_COMM_WORLD; NULL if not read yet. */
static const mca_coll_mrail_rank_entry_t **table;
static size_t table_size;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the modex of Open MPI ---- */

/* Open MPI 4.1 wraps PMIx; 5.0 uses it directly. modex_put() returns 0 or -EIO.
 * modex_get() returns 0 with a copy, which the caller frees; 0 with *data_p
 * unchanged if there is no value; or -ENOMEM. */
#if OMPI_MAJOR_VERSION >= 5
static int modex_put(void *data, size_t size)
{
    int ret;

    OPAL_MODEX_SEND_STRING(ret, PMIX_GLOBAL, key, data, size);
    return (ret == PMIX_SUCCESS) ? 0 : -EIO;
}

static int modex_get(opal_process_name_t name, void **data_p, size_t *size_p)
{
    pmix_value_t *value = NULL;
    pmix_proc_t proc;
    int ret;

    OPAL_PMIX_CONVERT_NAME(&proc, &name);
    ret = PMIx_Get(&proc, key, NULL, 0, &value);
    if (value != NULL && value->type == PMIX_BYTE_OBJECT) {
        *data_p = value->data.bo.bytes;
        *size_p = value->data.bo.size;
        value->data.bo.bytes = NULL;
        value->data.bo.size = 0;
    }
    if (value != NULL) {
        PMIX_VALUE_RELEASE(value);
    }
    return (ret == PMIX_ERR_NOMEM || ret == PMIX_ERR_OUT_OF_RESOURCE) ? -ENOMEM
                                                                      : 0;
}
#else
static int modex_put(void *data, size_t size)
{
    int ret;

    if (opal_pmix.put == NULL) {
        return -EIO; /* the process is ompi_info, not an MPI process */
    }
    OPAL_MODEX_SEND_STRING(ret, OPAL_PMIX_GLOBAL, key, data, size);
    return (ret == OPAL_SUCCESS) ? 0 : -EIO;
}

static int modex_get(opal_process_name_t name, void **data_p, size_t *size_p)
{
    opal_value_t *value = NULL;
    int ret = opal_pmix.get(&name, key, NULL, &value);

    if (value != NULL) {
        *data_p = value->data.bo.bytes;
        *size_p = (size_t)value->data.bo.size;
        value->data.bo.bytes = NULL;
        OBJ_RELEASE(value);
    }
    return (ret == OPAL_ERR_OUT_OF_RESOURCE) ? -ENOMEM : 0;
}
#endif

/* ---- entries ---- */

void mca_coll_mrail_modex_publish(const mca_coll_mrail_rank_entry_t *entry)
{
    mine = *entry;
    if (modex_put(&mine, sizeof(mine)) < 0) {
        mine = absent; /* the other processes receive no entry either */
    }
}

const mca_coll_mrail_rank_entry_t *mca_coll_mrail_modex_mine(void)
{
    return &mine;
}

static int receive(opal_process_name_t name,
                   const mca_coll_mrail_rank_entry_t **entry_p)
{
    mca_coll_mrail_rank_entry_t *entry;
    void *data = NULL;
    size_t size = 0;
    int ret = modex_get(name, &data, &size);

    entry = data;
    if (ret < 0) {
        return ret;
    }
    if (entry != NULL && size == sizeof(*entry)) {
        *entry_p = entry;
        return 0;
    }
    free(entry);
    *entry_p = &absent;
    return 0;
}

static int grow_table(size_t size)
{
    if (size <= table_size) {
        return 0;
    }
    size = MRAIL_MAX(size, 2 * table_size);
    if (!mrail_grow(&table, size, sizeof(*table))) {
        return -ENOMEM;
    }
    memset(table + table_size, 0, (size - table_size) * sizeof(*table));
    table_size = size;
    return 0;
}

/* Finds an entry. The caller holds table_lock. */
static int find(opal_process_name_t name,
                const mca_coll_mrail_rank_entry_t **entry_p)
{
    int ret = 0;

    if (name.jobid != OPAL_PROC_MY_NAME.jobid) {
        *entry_p = &foreign;
        return 0;
    }
    if (grow_table((size_t)name.vpid + 1) < 0) {
        return -ENOMEM;
    }
    if (table[name.vpid] == NULL) {
        ret = receive(name, &table[name.vpid]);
    }
    *entry_p = table[name.vpid];
    return ret;
}

int mca_coll_mrail_modex_read(struct ompi_communicator_t *comm,
                              mca_coll_mrail_rank_entry_t *entries,
                              uint32_t *world)
{
    const mca_coll_mrail_rank_entry_t *entry = NULL;
    int ret = 0;

    pthread_mutex_lock(&table_lock);
    for (int i = 0; i < ompi_comm_size(comm) && ret == 0; ++i) {
        opal_process_name_t name =
            ompi_group_get_proc_name(comm->c_local_group, i);

        ret = find(name, &entry);
        if (ret == 0) {
            entries[i] = *entry;
        }
        if (world != NULL) {
            world[i] = name.vpid;
        }
    }
    pthread_mutex_unlock(&table_lock);
    return ret;
}

const mca_coll_mrail_rank_entry_t *
mca_coll_mrail_modex_entry(struct ompi_communicator_t *comm, int rank)
{
    const mca_coll_mrail_rank_entry_t *entry = NULL;
    int ret;

    pthread_mutex_lock(&table_lock);
    ret = find(ompi_group_get_proc_name(comm->c_local_group, rank), &entry);
    pthread_mutex_unlock(&table_lock);
    return (ret == 0) ? entry : NULL;
}

void mca_coll_mrail_modex_cleanup(void)
{
    for (size_t i = 0; i < table_size; ++i) {
        if (table[i] != &absent) {
            free((void *)table[i]);
        }
    }
    free(table);
    table = NULL;
    table_size = 0;
    mine = absent;
}
