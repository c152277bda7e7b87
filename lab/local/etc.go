package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// etcFiles are files of /etc that a node's programs need, with defaults. containerd needs
// hosts for a sandbox, and the kubelet for a pod with the node's network; Go programs,
// such as the kubelet, need passwd and group to look up users; containerd copies
// resolv.conf into pods without DNS settings.
var etcFiles = map[string]string{
	"hosts":       "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
	"resolv.conf": "",
	"passwd":      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":       "root:x:0:\nnogroup:x:65534:\n",
}

// supplyEtc supplies the files of etcFiles that a folder lacks, by an overlay whose changes
// are in scratch: the machine's own folder stays unchanged. It mounts nothing if the folder
// lacks none.
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
		files[name] = data // also of those that are there: an overlay hides mounts on single files
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
