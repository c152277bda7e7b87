package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/lab"
)

// masked are folders that the lab covers with its own file system, which ends with the lab.
var masked = []string{"/run", "/var/lib", "/var/log"}

// mountNode sets up a node's mount namespace: private to the lab, with its own /proc and
// empty folders over the masked ones. Folders in Keep stay visible beneath them.
func mountNode(s *spec) error {
	hidden, err := openHidden(s.Keep)
	if err != nil {
		return err
	}
	defer func() {
		for _, f := range hidden {
			f.Close()
		}
	}()
	steps := []func() error{
		// First detach from the host, then share inside, as on any node: volumes may
		// propagate between the kubelet and its pods.
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") },
		func() error { return mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "") },
		func() error { return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") },
	}
	for _, dir := range masked {
		if _, err := os.Stat(dir); err != nil {
			return fmt.Errorf("mount the lab's own folder over %s: %w", dir, err)
		}
		steps = append(steps, func() error { return mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755") })
	}
	for dir, f := range hidden {
		steps = append(steps, func() error { return bind(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), dir) })
	}
	steps = append(steps,
		func() error { return bind(s.Dir.join("kubelet"), kubeletDir) },
		func() error { return bind(s.Dir.join("log", "pods"), "/var/log/pods") },
		func() error { return bind(s.Dir.join("log", "containers"), "/var/log/containers") },
		func() error { return bind(s.ImageStore, imageDir) },
		func() error { return os.Chmod(runDir, 0o700) },
		func() error { return supplyEtc("/etc", filepath.Join(runDir, "etc")) },
		func() error { return unix.Sethostname([]byte(s.hostname())) },
	)
	if s.NodeNetwork {
		steps = append(steps, s.layNetwork)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// layNetwork sets up [lab.CNIBinDir] and [lab.CNIConfDir] with the lab's own plugins and
// configuration.
func (s *spec) layNetwork() error {
	disk := s.Dir.join("cni")
	plugins, networks := filepath.Join(disk, "bin"), filepath.Join(disk, "conf")
	if err := errors.Join(os.RemoveAll(disk), os.MkdirAll(plugins, 0o755), os.MkdirAll(networks, 0o755)); err != nil {
		return err
	}
	names, err := list(s.CNI)
	for _, name := range names {
		err = errors.Join(err, os.Symlink(filepath.Join(s.CNI, name), filepath.Join(plugins, name)))
	}
	if err != nil {
		return fmt.Errorf("the plugins of the node's network: %w", err)
	}
	names, err = list(s.Dir.conf("cni"))
	for _, name := range names {
		err = errors.Join(err, copyFile(filepath.Join(s.Dir.conf("cni"), name), filepath.Join(networks, name)))
	}
	if err != nil {
		return fmt.Errorf("the configuration of the node's network: %w", err)
	}
	return errors.Join(bind(plugins, lab.CNIBinDir), bind(networks, lab.CNIConfDir))
}

// openHidden opens the folders that masks would hide.
func openHidden(keep []string) (map[string]*os.File, error) {
	open := map[string]*os.File{}
	for _, dir := range keep {
		for _, mask := range masked {
			real, err := filepath.EvalSymlinks(dir)
			if err != nil {
				return open, err
			}
			for _, path := range []string{dir, real} {
				if !strings.HasPrefix(path, mask+"/") || open[path] != nil {
					continue
				}
				fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				if err != nil {
					return open, fmt.Errorf("open %s: %w", path, err)
				}
				open[path] = os.NewFile(uintptr(fd), path)
			}
		}
	}
	return open, nil
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", strings.TrimSpace(kind+" "+source), target, err)
	}
	return nil
}

func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// etcFiles are files of /etc that a node's programs need, with defaults. containerd needs
// hosts for a sandbox, and the kubelet for a pod with the node's network; Go programs, such
// as the kubelet, need passwd and group to look up users; containerd copies resolv.conf
// into pods without DNS settings.
var etcFiles = map[string]string{
	"hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
	"resolv.conf": "",
	"passwd":      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":       "root:x:0:\nnogroup:x:65534:\n",
}

// supplyEtc adds the files of etcFiles that a folder lacks, through an overlay whose
// changes are in scratch: the machine's own folder stays unchanged. If no file is missing,
// it mounts nothing.
func supplyEtc(etc, scratch string) error {
	upper, work := filepath.Join(scratch, "upper"), filepath.Join(scratch, "work")
	files, lacks := map[string][]byte{}, false
	for name, text := range etcFiles {
		data, err := os.ReadFile(filepath.Join(etc, name))
		if errors.Is(err, fs.ErrNotExist) {
			data, err, lacks = []byte(text), nil, true
		}
		if err != nil {
			return fmt.Errorf("what the node's programs read: %w", err)
		}
		files[name] = data // existing files too: an overlay hides mounts on single files
	}
	if !lacks {
		return nil
	}
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(upper, name), data, 0o644); err != nil {
			return err
		}
	}
	return mount("overlay", etc, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", etc, upper, work))
}
