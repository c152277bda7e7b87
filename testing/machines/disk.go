package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The script that tries the program, and the studies that it runs: one of each kind, as small
// as possible.
var (
	//go:embed guest.sh
	guestScript string
	//go:embed dataplane.yaml
	dataPlane string
	//go:embed controlplane.yaml
	controlPlane string
	//go:embed resilience.yaml
	resilience string
)

// service runs the script once the machine has booted, with its output on the second serial
// port, and powers the machine off.
const service = `[Unit]
After=multi-user.target

[Service]
Type=oneshot
ExecStart=/opt/meshtrial/guest.sh
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/dev/ttyS1
StandardError=inherit
TimeoutStartSec=infinity
`

// disk makes a machine's root file system and an image of it.
func (o options) disk(ctx context.Context, m machine) (string, error) {
	root, image := filepath.Join(o.work, m.name), filepath.Join(o.work, m.name+".img")
	if err := os.RemoveAll(root); err != nil {
		return "", err
	}
	site, err := repository(ctx, m.suite)
	if err != nil {
		return "", err
	}
	packages := strings.Join(append(base[:len(base):len(base)], m.packages...), ",")
	// A mirror may be older than its release files allow.
	if err := command(ctx, "mmdebstrap", "--quiet", "--variant=minbase", `--aptopt=Acquire::Check-Valid-Until "false"`, "--include="+packages, m.suite, root, site); err != nil {
		return "", err
	}
	if err := m.fill(ctx, root); err != nil {
		return "", err
	}
	network := []string{filepath.Join(root, "etc/resolv.conf"), filepath.Join(root, "etc/hosts")}
	cache := filepath.Join(root, "root/.cache/meshtrial")
	for _, c := range [][]string{
		{"install", "-d", "-m", "700", cache},
		{"cp", "-a", o.cache, filepath.Join(cache, "entries")},
		{"install", "-m", "755", o.program, filepath.Join(root, "usr/local/bin/meshtrial")},
		// The packages of this release for programs on the node: fetched from here, since there
		// is no network inside.
		{"cp", "/etc/resolv.conf", "/etc/hosts", filepath.Join(root, "etc")},
		{"chroot", root, "env", "HOME=/root", "meshtrial", "lab", "components", "build"},
		append([]string{"rm"}, network...),
		{"mke2fs", "-q", "-t", "ext4", "-F", "-d", root, image, "14G"},
	} {
		if err := command(ctx, c[0], c[1:]...); err != nil {
			return "", err
		}
	}
	return image, nil
}

// fill writes what a machine has in addition to its packages.
func (m machine) fill(ctx context.Context, root string) error {
	files := map[string]string{
		"/etc/systemd/system/tryit.service": service,
		"/opt/meshtrial/guest.sh":           guestScript,
		"/opt/meshtrial/dataplane.yaml":     dataPlane,
		"/opt/meshtrial/controlplane.yaml":  controlPlane,
		"/opt/meshtrial/resilience.yaml":    resilience,
		"/opt/meshtrial/prefix":             m.prefix,
		"/etc/hostname":                     m.name + "\n",
	}
	maps.Copy(files, m.files)
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			return err
		}
	}
	links := map[string]string{"multi-user.target.wants/tryit.service": "../tryit.service",
		// A login on a serial port hangs up on other writers.
		"serial-getty@ttyS0.service": "/dev/null", "serial-getty@ttyS1.service": "/dev/null"}
	for name, to := range links {
		path := filepath.Join(root, "etc/systemd/system", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path)); err != nil {
			return err
		}
	}
	if m.prefix == "" {
		return nil
	}
	return command(ctx, "chroot", root, "useradd", "--create-home", "someone")
}

// repository returns the first of apt's package sources that has a suite.
func repository(ctx context.Context, suite string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	for site := range strings.FieldsSeq(string(out)) {
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(site, "/")+"/dists/"+suite+"/Release", nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return site, nil
		}
	}
	return "", fmt.Errorf("no repository of this machine's apt has the suite %s", suite)
}

// command runs a program; its error includes the end of the output.
func command(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	// If mmdebstrap is killed, this machine's /dev, /proc and /sys stay mounted in a root file
	// system that is then removed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		return errors.Join(fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-2000):]), ctx.Err())
	}
	return nil
}
