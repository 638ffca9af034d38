# Attempts to get out of a sandbox, made by root inside it; prints one JSON object: attempt -> errno name, or OK when it worked.
import ctypes, errno, json, os, platform, signal, socket, struct, sys

libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"

# name: (x86_64, aarch64)
NUMBERS = {
    "ptrace": (101, 117), "syslog": (103, 116), "mknodat": (259, 33), "pivot_root": (155, 41), "sethostname": (170, 161),
    "mount": (165, 40), "umount2": (166, 39), "swapon": (167, 224), "reboot": (169, 142), "init_module": (175, 105),
    "delete_module": (176, 106), "quotactl": (179, 60), "acct": (163, 89), "settimeofday": (164, 170), "personality": (135, 92),
    "kexec_load": (246, 104), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "unshare": (272, 97),
    "clone": (56, 220), "perf_event_open": (298, 241), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "setns": (308, 268), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "finit_module": (313, 273),
    "bpf": (321, 280), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "pidfd_open": (434, 434),
    "clone3": (435, 435), "pidfd_getfd": (438, 438), "mount_setattr": (442, 442), "move_pages": (279, 239),
    "fanotify_init": (300, 262), "kexec_file_load": (320, 294), "swapoff": (168, 225), "clock_settime": (227, 112),
}
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
CLONE_NEWTIME, CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x80, 0x20000, 0x10000000, 0x20000000, 0x40000000


def call(name, *args):
    arguments = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_void_p(a) if isinstance(a, int) and a > 2**31 else ctypes.c_long(a)
                 if isinstance(a, int) else a for a in args]
    result = libc.syscall(ctypes.c_long(NUMBERS[name][1 if arm else 0]), *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def clone_with(flags):
    if (pid := call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read(path):
    with open(path, "rb") as file:
        return file.read(64)


def vm_copy(name, pid):
    local = ctypes.create_string_buffer(8)
    here = struct.pack("QQ", ctypes.addressof(local), 8)
    there = struct.pack("QQ", 0x400000, 8)
    call(name, pid, here, 1, there, 1, 0)


def handle_of(path):
    buffer = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    call("name_to_handle_at", -100, path, buffer, ctypes.byref(mount_id), 0)
    return buffer


def raise_capabilities():
    header = struct.pack("Ii", 0x20080522, 0)
    libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    if libc.capset(header, struct.pack("IIIIII", *([0xFFFFFFFF] * 6))) == -1:
        raise OSError(ctypes.get_errno(), "capset")


def add_device():
    # RTM_NEWLINK of a dummy device: what `ip link add` sends.
    info = struct.pack("HH", 4 + 6, 1) + b"dummy\0\0\0"
    link = struct.pack("HH", 4 + len(info), 18) + info
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + link
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        route.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        code = struct.unpack_from("i", route.recv(4096), 16)[0]
        if code != 0:
            raise OSError(-code, "netlink")


def open_families(family, kind=socket.SOCK_STREAM, protocol=0):
    socket.socket(family, kind, protocol).close()


def become(uid, work):
    """Runs work in a child with another user id; a failure's errno is the child's exit code."""
    if (pid := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        raise OSError(code, "become")


def pidfd_of_init():
    return call("pidfd_open", 1, 0)


ATTEMPTS = {
    # File systems
    "mount a tmpfs": lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, 0),
    "mount another proc": lambda: call("mount", b"proc", b"/mnt", b"proc", 0, 0),
    "bind a directory elsewhere": lambda: call("mount", b"/etc", b"/mnt", b"", 4096, 0),
    "make /proc/sys writable": lambda: call("mount", b"", b"/proc/sys", b"", 32 | 4096, 0),
    "uncover what /proc/sys lies over": lambda: call("umount2", b"/proc/sys", 2),
    "pivot the root": lambda: call("pivot_root", b"/", b"/mnt"),
    "open a file system": lambda: call("fsopen", b"tmpfs", 0),
    "pick a file system": lambda: call("fspick", -100, b"/", 0),
    "clone a mount tree": lambda: call("open_tree", -100, b"/", 1),
    "move a mount": lambda: call("move_mount", -100, b"/etc", -100, b"/mnt", 0),
    "change mount attributes": lambda: call("mount_setattr", -100, b"/proc/sys", 0, struct.pack("QQQQ", 0, 1, 0, 0), 32),
    "open a file by handle": lambda: call("open_by_handle_at", os.open("/dev/shm", os.O_RDONLY), handle_of(b"/dev/shm"), 0),
    "set quotas": lambda: call("quotactl", 0x800002 << 8, b"/dev/vda", 0, 0),
    "swap to a file": lambda: call("swapon", b"/etc/passwd", 0),
    "keep process accounts": lambda: call("acct", b"/etc/passwd"),
    "watch the whole file system": lambda: call("fanotify_init", 4, 0),
    # Namespaces
    "make a user namespace": lambda: call("unshare", CLONE_NEWUSER),
    "make a mount namespace": lambda: call("unshare", CLONE_NEWNS),
    "make a network namespace": lambda: call("unshare", CLONE_NEWNET),
    "make a time namespace": lambda: call("unshare", CLONE_NEWTIME),
    "clone into a user namespace": lambda: clone_with(CLONE_NEWUSER),
    "clone into a pid namespace": lambda: clone_with(CLONE_NEWPID),
    "clone3 with flags no filter sees": lambda: call("clone3", struct.pack("Q", CLONE_NEWUSER) + bytes(56), 64),
    "enter the init's mount namespace": lambda: call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), CLONE_NEWNS),
    "enter a namespace by pidfd": lambda: call("setns", pidfd_of_init(), CLONE_NEWNS),
    # Devices
    "make a block device": lambda: os.mknod("/root/disk", 0o60600, os.makedev(254, 0)),
    "make a memory device": lambda: os.mknod("/root/mem", 0o20600, os.makedev(1, 1)),
    "make a device in /dev": lambda: os.mknod("/dev/mem", 0o20600, os.makedev(1, 1)),
    "open the machine's disk": lambda: os.open("/dev/vda", os.O_RDONLY),
    "open the machine's memory": lambda: os.open("/dev/mem", os.O_RDONLY),
    "open the kernel's log": lambda: os.open("/dev/kmsg", os.O_RDONLY),
    "open the hypervisor": lambda: os.open("/dev/kvm", os.O_RDONLY),
    # The kernel
    "load a module": lambda: call("init_module", b"\x7fELF", 4, b""),
    "load a module from a file": lambda: call("finit_module", os.open("/etc/passwd", os.O_RDONLY), b"", 0),
    "unload a module": lambda: call("delete_module", b"veth", 0),
    "load another kernel": lambda: call("kexec_load", 0, 0, 0, 0),
    "load another kernel from a file": lambda: call("kexec_file_load", 0, 0, 0, b"", 0),
    "restart the machine": lambda: call("reboot", 0xFEE1DEAD, 0x28121969, 0x1234567, 0),
    "set the clock": lambda: call("settimeofday", struct.pack("qq", 0, 0), 0),
    "set the clock by its number": lambda: call("clock_settime", 0, struct.pack("qq", 0, 0)),
    "set the host name": lambda: call("sethostname", b"x", 1),
    "read the kernel's log": lambda: call("syslog", 3, ctypes.create_string_buffer(64), 64),
    "load a BPF program": lambda: call("bpf", 5, bytes(72), 72),
    "make a BPF map": lambda: call("bpf", 0, struct.pack("IIIIII", 2, 4, 4, 1, 0, 0), 24),
    "count performance events": lambda: call("perf_event_open", struct.pack("II", 1, 112) + bytes(104), 0, -1, -1, 0),
    "set up io_uring": lambda: call("io_uring_setup", 4, ctypes.create_string_buffer(120)),
    "handle page faults": lambda: call("userfaultfd", 1),
    "add a key": lambda: call("add_key", b"user", b"x", b"y", 1, -3),
    "request a key": lambda: call("request_key", b"user", b"x", 0, -3),
    "join a session keyring": lambda: call("keyctl", 1, 0),
    "move another process's pages": lambda: call("move_pages", 1, 0, 0, 0, 0, 0),
    "take a strange personality": lambda: call("personality", 0x0400000),
    # The kernel's files
    "press the magic key": lambda: write("/proc/sysrq-trigger", "b"),
    "set the core pattern": lambda: write("/proc/sys/kernel/core_pattern", "|/root/x"),
    "set the module loader": lambda: write("/proc/sys/kernel/modprobe", "/root/x"),
    "set the binary handlers": lambda: write("/proc/sys/fs/binfmt_misc/register", ":x:M::x::/root/x:"),
    "set the host name by a file": lambda: write("/proc/sys/kernel/hostname", "x"),
    "set a network setting": lambda: write("/proc/sys/net/ipv4/ip_forward", "1"),
    "raise the inotify limit": lambda: write("/proc/sys/user/max_inotify_instances", "1000000"),
    "set the uevent helper": lambda: write("/sys/kernel/uevent_helper", "/root/x"),
    "write a kernel object's event": lambda: write("/sys/class/net/lo/uevent", "add"),
    "steer an interrupt": lambda: write("/proc/irq/default_smp_affinity", "1"),
    # Control groups
    "set a release agent": lambda: write(f"{CGROUP}/release_agent", "/root/x"),
    "leave the control group": lambda: write(f"{CGROUP}/cgroup.procs", "0"),
    "make a control group": lambda: os.mkdir(f"{CGROUP}/own"),
    "raise the memory limit": lambda: write(MEMORY_LIMIT, "1000000000000"),
    "mount control groups": lambda: call("mount", b"cgroup", b"/mnt", b"cgroup2", 0, 0),
    # The init
    "trace the init": lambda: call("ptrace", PTRACE_ATTACH, 1, 0, 0),
    "seize the init": lambda: call("ptrace", PTRACE_SEIZE, 1, 0, 0),
    "read the init's memory": lambda: read("/proc/1/mem"),
    "write the init's memory": lambda: write("/proc/1/mem", "x"),
    "read the init's memory map": lambda: read("/proc/1/maps"),
    "read the init's environment": lambda: read("/proc/1/environ"),
    "copy from the init": lambda: vm_copy("process_vm_readv", 1),
    "copy to the init": lambda: vm_copy("process_vm_writev", 1),
    "take the init's socket": lambda: call("pidfd_getfd", pidfd_of_init(), 3, 0),
    "open the init's socket": lambda: os.open("/proc/1/fd/3", os.O_RDWR),
    "see what the init has open": lambda: os.readlink("/proc/1/fd/3"),
    "walk the init's root": lambda: os.listdir("/proc/1/root/"),
    "open the init's program for writing": lambda: os.open("/.catnap-init", os.O_WRONLY),
    "change the init's mode": lambda: os.chmod("/.catnap-init", 0o777),
    "replace the init's program": lambda: os.rename("/bin", "/.catnap-init"),
    "remove the init's program": lambda: os.unlink("/.catnap-init"),
    "open the search program for writing": lambda: os.open("/.catnap-rg", os.O_WRONLY),
    "replace the search program": lambda: os.rename("/bin", "/.catnap-rg"),
    "spare itself when memory is short": lambda: write("/proc/self/oom_score_adj", "-1000"),
    "run before others in real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99)),
    # Sockets and devices of the network
    "open a raw socket": lambda: open_families(socket.AF_INET, socket.SOCK_RAW, 1),
    "open a packet socket": lambda: open_families(socket.AF_PACKET, socket.SOCK_RAW, 768),
    "open a socket to the hypervisor": lambda: open_families(40),
    "open a socket to the kernel's crypto": lambda: open_families(38, socket.SOCK_SEQPACKET),
    "add a network device": add_device,
    # Rights
    "raise its capabilities": raise_capabilities,
    "become root again": lambda: become(1000, lambda: os.setresuid(0, 0, 0)),
    "take an id beyond the range": lambda: os.setresuid(70000, 70000, 70000),
    "give a file to an id beyond the range": lambda: os.chown("/root", 70000, -1),
}

# What must work, by the same means: a refusal above is then not a mistake in the attempt.
CONTROLS = {
    "clone without namespaces": lambda: clone_with(0),
    "unshare without namespaces": lambda: call("unshare", 0x400),
    "make a pipe by mknod": lambda: os.mknod("/root/pipe", 0o10600),
    "name a file by handle": lambda: handle_of(b"/dev/shm"),
    "open a netlink socket": lambda: open_families(socket.AF_NETLINK, socket.SOCK_RAW),
    "take the usual personality": lambda: call("personality", 0xFFFFFFFF),
    "become another user": lambda: become(1000, lambda: None),
    "write an own file": lambda: (open("/root/own", "w").close(), write("/root/own", "x")),
    "read an own memory map": lambda: read("/proc/self/maps"),
    "copy from itself": lambda: vm_copy_self(),
    "find the init's process": lambda: os.close(pidfd_of_init()),
    "lower its own chance to live": lambda: write("/proc/self/oom_score_adj", "1000"),
}


def vm_copy_self():
    there = ctypes.create_string_buffer(b"12345678")
    local = ctypes.create_string_buffer(9)
    call("process_vm_readv", os.getpid(), struct.pack("QQ", ctypes.addressof(local), 8), 1,
         struct.pack("QQ", ctypes.addressof(there), 8), 1, 0)
    assert local.value == b"12345678"


V1 = os.path.isdir("/sys/fs/cgroup/memory")
CGROUP = "/sys/fs/cgroup/memory" if V1 else "/sys/fs/cgroup"
MEMORY_LIMIT = "/sys/fs/cgroup/memory/memory.limit_in_bytes" if V1 else "/sys/fs/cgroup/memory.max"


def outcome(work):
    try:
        work()
        return "OK"
    except OSError as error:
        return errno.errorcode[error.errno]


if __name__ == "__main__":
    chosen = CONTROLS if sys.argv[1:] == ["controls"] else ATTEMPTS
    # Each in a process of its own, so that one's success would not change what the next one may.
    results = {}
    for name, work in chosen.items():
        reader, writer = os.pipe()
        if (pid := os.fork()) == 0:
            os.write(writer, outcome(work).encode())
            os._exit(0)
        os.close(writer)
        results[name] = os.read(reader, 64).decode() or "DIED"
        os.close(reader)
        os.waitpid(pid, 0)
    print(json.dumps(results))
