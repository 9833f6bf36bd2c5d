package main

/*
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static int in_this_library;

// give_back gives back the pages of this library that are never written.
static int give_back(struct dl_phdr_info *library, size_t size, void *unused) {
	const ElfW(Phdr) *end = library->dlpi_phdr + library->dlpi_phnum, *at;
	uintptr_t mark = (uintptr_t)&in_this_library, page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int ours = 0;
	for (at = library->dlpi_phdr; at < end; at++) {
		uintptr_t from = library->dlpi_addr + at->p_vaddr;
		ours |= at->p_type == PT_LOAD && from <= mark && mark < from + at->p_memsz;
	}
	for (at = library->dlpi_phdr; ours && at < end; at++) {
		uintptr_t from = library->dlpi_addr + at->p_vaddr, to = from + at->p_filesz;
		if (at->p_type == PT_LOAD && !(at->p_flags & PF_W)) {
			from -= from % page;
			madvise((void *)from, to - from, MADV_DONTNEED);
		}
	}
	return ours;
}

static void settle(void) { dl_iterate_phdr(give_back, NULL); }
*/
import "C"

import "sync"

// settle gives back what only the start of the library needed. Relocating it and initializing its
// packages reads nearly all of its file, 64 MiB with Helm, and an action reads a quarter of that. What
// is needed again is mapped again, from the same file. Segments that are written to are left alone:
// relocated data is in them, also where it is read-only afterwards (elf(5), PT_GNU_RELRO).
var settle = sync.OnceFunc(func() { C.settle() })
