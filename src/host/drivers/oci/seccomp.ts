// The system calls a sandbox may make. Everything not named here is refused with EPERM, and calls newer than the runtime's own
// library knows with ENOSYS, which programs take as "old kernel" and fall back from.

type Rule = {
  names: readonly string[];
  action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO";
  errnoRet?: number;
  args?: readonly { index: number; value: number; valueTwo?: number; op: "SCMP_CMP_EQ" | "SCMP_CMP_MASKED_EQ" }[];
};

export type SeccompProfile = {
  defaultAction: "SCMP_ACT_ERRNO";
  defaultErrnoRet: number;
  architectures: readonly string[];
  syscalls: readonly Rule[];
};

const errno = { EPERM: 1, ENOSYS: 38, EAFNOSUPPORT: 97 };

/** Calls that act on the caller's own memory, files, processes, sockets and clocks; the kernel checks permissions as always. */
const allowed: readonly string[] = `
  read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek sendfile sendfile64 splice tee vmsplice
  copy_file_range readahead fadvise64 fadvise64_64 arm_fadvise64_64 fallocate ftruncate ftruncate64 truncate truncate64
  open openat openat2 creat close close_range dup dup2 dup3 fcntl fcntl64 ioctl flock fsync fdatasync sync syncfs
  sync_file_range sync_file_range2 pipe pipe2 memfd_create memfd_secret name_to_handle_at
  stat stat64 lstat lstat64 fstat fstat64 newfstatat fstatat64 statx statfs statfs64 fstatfs fstatfs64 access faccessat faccessat2
  chmod fchmod fchmodat fchmodat2 chown chown32 lchown lchown32 fchown fchown32 fchownat umask utime utimes utimensat
  utimensat_time64 futimesat
  getdents getdents64 getcwd chdir fchdir chroot mkdir mkdirat rmdir mknod mknodat link linkat symlink symlinkat readlink readlinkat
  rename renameat renameat2 unlink unlinkat
  setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
  inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
  poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait
  epoll_wait_old epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4
  timerfd_create timerfd_settime timerfd_settime64 timerfd_gettime timerfd_gettime64
  io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents io_pgetevents_time64
  brk mmap mmap2 munmap mremap mprotect madvise process_madvise mincore msync mlock mlock2 munlock mlockall munlockall
  remap_file_pages pkey_alloc pkey_free pkey_mprotect membarrier cachestat map_shadow_stack mseal
  get_mempolicy set_mempolicy mbind set_mempolicy_home_node
  fork vfork execve execveat exit exit_group wait4 waitid waitpid kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending
  rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 sigaltstack pause alarm
  getpid getppid gettid getpgid getpgrp getsid setpgid setsid set_tid_address set_robust_list get_robust_list restart_syscall
  pidfd_open pidfd_send_signal pidfd_getfd ptrace process_vm_readv process_vm_writev kcmp process_mrelease
  getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getresuid getresuid32 getresgid getresgid32 getgroups
  getgroups32 setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32 setresuid setresuid32 setresgid
  setresgid32 setgroups setgroups32 setfsuid setfsuid32 setfsgid setfsgid32 capget capset prctl arch_prctl seccomp
  landlock_create_ruleset landlock_add_rule landlock_restrict_self
  getpriority setpriority getrlimit ugetrlimit setrlimit prlimit64 getrusage times sysinfo uname getcpu ioprio_get ioprio_set
  sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam sched_getscheduler
  sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval sched_rr_get_interval_time64
  futex futex_time64 futex_waitv futex_wake futex_wait futex_requeue rseq
  time gettimeofday clock_gettime clock_gettime64 clock_getres clock_getres_time64 clock_nanosleep clock_nanosleep_time64
  nanosleep adjtimex getitimer setitimer timer_create timer_settime timer_settime64 timer_gettime timer_gettime64
  timer_getoverrun timer_delete
  bind connect listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown send sendto sendmsg sendmmsg recv
  recvfrom recvmsg recvmmsg recvmmsg_time64
  shmget shmat shmdt shmctl semget semop semtimedop semtimedop_time64 semctl msgget msgsnd msgrcv msgctl
  mq_open mq_unlink mq_timedsend mq_timedsend_time64 mq_timedreceive mq_timedreceive_time64 mq_notify mq_getsetattr
  getrandom sethostname setdomainname riscv_flush_icache cacheflush set_thread_area get_thread_area
`
  .trim()
  .split(/\s+/);

/** Every CLONE_NEW flag: a sandbox makes no namespaces, because each opens kernel code that only privileged programs reach otherwise. */
const newNamespaces = 0x7e02_0000;
/** Shares its bit with the exit signal of clone and is therefore refused for unshare only. */
const newTimeNamespace = 0x80;

/** Unix, IPv4, IPv6 and netlink; not vsock (a way to a hypervisor), not the kernel's crypto, packets or rarely used protocols. */
const socketFamilies = [1, 2, 10, 16];

/** Linux, 32-bit address space, no randomisation (debuggers), and asking (0xffffffff). */
const personalities = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, 0xffff_ffff];

function allow(names: readonly string[]): Rule {
  return { names, action: "SCMP_ACT_ALLOW" };
}

function allowWhen(name: string, index: number, value: number): Rule {
  return { names: [name], action: "SCMP_ACT_ALLOW", args: [{ index, value, op: "SCMP_CMP_EQ" }] };
}

function allowWithout(name: string, index: number, flags: number): Rule {
  const arg = { index, value: flags, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" } as const;
  return { names: [name], action: "SCMP_ACT_ALLOW", args: [arg] };
}

/** One architecture only: the 32-bit entry points of a 64-bit kernel are a second, less used set of everything. */
export function seccompProfile(arch: string): SeccompProfile {
  const [architecture, own] =
    arch === "arm64" ? ["SCMP_ARCH_AARCH64", []] : ["SCMP_ARCH_X86_64", allow(["modify_ldt"])];
  return {
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: errno.EPERM,
    architectures: [architecture],
    syscalls: [
      allow(allowed),
      own,
      // Its flags lie behind a pointer, where no filter sees them: the C library falls back to clone.
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: errno.ENOSYS } as const,
      allowWithout("clone", 0, newNamespaces),
      allowWithout("unshare", 0, newNamespaces + newTimeNamespace),
      ...socketFamilies.flatMap((family) => [allowWhen("socket", 0, family), allowWhen("socketpair", 0, family)]),
      ...personalities.map((personality) => allowWhen("personality", 0, personality)),
    ].flat(),
  };
}
