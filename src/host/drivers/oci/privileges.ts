// What processes in a sandbox may do beyond an ordinary user's rights, and what of the kernel's own files they do not see.

/** Root's abilities inside, on the sandbox's own ids and files only. What is missing here cannot come back: no new privileges. */
export const capabilities: readonly string[] = [
  "CAP_CHOWN", // package managers and archives give files to others
  "CAP_DAC_OVERRIDE", // root reads and writes everybody's files inside
  "CAP_FOWNER", // the same for modes and times
  "CAP_FSETID", // keeps set-group-id bits on files root writes
  "CAP_KILL", // root ends other users' processes inside
  "CAP_SETGID", // programs that drop to a user of their own (apt, databases, web servers)
  "CAP_SETUID", // likewise
  "CAP_SETPCAP", // those programs also give up abilities for good
  "CAP_NET_BIND_SERVICE", // servers on ports below 1024
  "CAP_SYS_CHROOT", // package scripts and servers that lock themselves in
  "CAP_SETFCAP", // unpacking packages whose files carry abilities
];

/** Kernel files that tell of the machine or of others on it. */
export const maskedPaths: readonly string[] = [
  "/proc/acpi",
  "/proc/asound",
  "/proc/interrupts",
  "/proc/kcore",
  "/proc/key-users",
  "/proc/keys",
  "/proc/kmsg",
  "/proc/latency_stats",
  "/proc/sched_debug",
  "/proc/scsi",
  "/proc/timer_list",
  "/proc/timer_stats",
  "/sys/devices/virtual/powercap",
  "/sys/firmware",
];

export const readonlyPaths: readonly string[] = [
  "/proc/bus",
  "/proc/fs",
  "/proc/irq",
  "/proc/sys",
  "/proc/sysrq-trigger",
];

/** Settings of the sandbox's own network namespace. */
export const sysctls: Readonly<Record<string, string>> = {
  // Ping without raw sockets, for every group.
  "net.ipv4.ping_group_range": "0 65535",
  "net.ipv4.ip_unprivileged_port_start": "0",
  // Devices that come after this have no IPv6; the loopback, which is there already, keeps ::1.
  "net.ipv6.conf.default.disable_ipv6": "1",
};
