package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// consoleOf returns the path of a machine's console log, which is next to its transcript.
func consoleOf(transcript string) string { return transcript + ".console" }

// boot runs a machine until it powers off.
func (o options) boot(ctx context.Context, m machine, disk, transcript string) error {
	root := filepath.Join(o.work, m.name)
	kernel, err := only(root, "boot/vmlinuz-*")
	if err != nil {
		return err
	}
	initrd, err := only(root, "boot/initrd.img-*")
	if err != nil {
		return err
	}
	if err := os.Remove(transcript); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return command(ctx, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", strconv.Itoa(m.memory),
		"-display", "none", "-monitor", "none", "-no-reboot", "-nic", "none",
		"-kernel", kernel, "-initrd", initrd, "-append", "root=/dev/vda rw console=ttyS0 panic=1",
		"-drive", "file="+disk+",if=virtio,format=raw,cache=unsafe",
		"-serial", "file:"+consoleOf(transcript), "-serial", "file:"+transcript)
}

// only returns the single file below root that matches a pattern.
func only(root, pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%s: %d files, want 1", pattern, len(found))
	}
	return found[0], nil
}

// step is the result of one step of the guest's script.
type step struct {
	name    string
	code    int // exit code
	seconds int
	ended   bool
}

// passed reports success. A run and its report may lack an answer (4); every other step
// must succeed.
func (s step) passed() bool {
	return s.ended && (s.code == 0 || s.code == 4 && (strings.HasPrefix(s.name, "run ") || s.name == "report"))
}

func (s step) String() string {
	switch {
	case !s.ended:
		return fmt.Sprintf("%-18s not ended", s.name)
	case !s.passed():
		return fmt.Sprintf("%-18s FAILED: exit code %d after %d s", s.name, s.code, s.seconds)
	}
	return fmt.Sprintf("%-18s exit code %d after %d s", s.name, s.code, s.seconds)
}

// lastStep is the last step of the script: a machine without it in its transcript hung.
const lastStep = "nothing left"

// passed reports whether all steps of a machine did.
func passed(steps []step) bool {
	return len(steps) > 0 && steps[len(steps)-1].name == lastStep &&
		!slices.ContainsFunc(steps, func(s step) bool { return !s.passed() })
}

// parse parses the marks that the guest's script writes before and after each step.
func parse(transcript string) []step {
	var out []step
	for line := range strings.Lines(transcript) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(line, "@@ begin "); ok {
			out = append(out, step{name: name})
			continue
		}
		rest, ok := strings.CutPrefix(line, "@@ end ")
		if !ok || len(out) == 0 {
			continue
		}
		var code, seconds int
		if _, err := fmt.Sscanf(rest, "%d %d", &code, &seconds); err != nil {
			continue
		}
		s := &out[len(out)-1]
		s.code, s.seconds, s.ended = code, seconds, true
	}
	return out
}
