# src/kernels: kernels, one source for nvcc and for the C compiler.
noinst_LTLIBRARIES += libmrail-kernels.la
libmrail_kernels_la_SOURCES = \
    src/kernels/args.h \
    src/kernels/image.h \
    src/kernels/kernel.h \
    src/kernels/kernels.c \
    src/kernels/copy.inc src/kernels/pattern.inc src/kernels/relay.inc \
    src/kernels/wait.inc
EXTRA_DIST += src/kernels/kernels.cu src/kernels/ptx_none.c
if HAVE_NVCC
nodist_libmrail_kernels_la_SOURCES = src/kernels/ptx.c
CLEANFILES += src/kernels/ptx.c src/kernels/kernels.ptx
src/kernels/ptx.c: src/kernels/kernels.cu src/kernels/args.h \
        src/kernels/image.h src/kernels/kernel.h src/kernels/copy.inc \
        src/kernels/pattern.inc src/kernels/relay.inc src/kernels/wait.inc
	@$(MKDIR_P) src/kernels
	$(AM_V_GEN)$(NVCC) --ptx -arch=$(NVCC_ARCH) -I "$(srcdir)/src" \
	    -o src/kernels/kernels.ptx "$(srcdir)/src/kernels/kernels.cu"
	@{ echo '#include "config.h"'; \
	    echo '#include "kernels/image.h"'; \
	    echo 'static const unsigned char ptx[] = {'; \
	    od -A n -v -t x1 src/kernels/kernels.ptx | \
	        sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'; \
	    echo '0};'; \
	    echo 'const char *const mrail_kernel_ptx = (const char *)ptx;'; \
	} >$@.new && mv $@.new $@
else
libmrail_kernels_la_SOURCES += src/kernels/ptx_none.c
endif
