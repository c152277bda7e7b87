package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// fake describes a folder.
type fake struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (f fake) Name() string       { return "folder" }
func (f fake) Size() int64        { return 0 }
func (f fake) Mode() fs.FileMode  { return f.mode }
func (f fake) ModTime() time.Time { return time.Time{} }
func (f fake) IsDir() bool        { return f.mode.IsDir() }
func (f fake) Sys() any           { return &syscall.Stat_t{Uid: f.uid, Gid: f.gid} }

func TestJudge(t *testing.T) {
	// User 1000 is the only member of group 1000; group 100 has several.
	r := rules{owners: []uint32{0, 1000}, private: func(group, owner uint32) bool { return group == 1000 && owner == 1000 }}
	dir := func(mode fs.FileMode, uid, gid uint32) fake { return fake{mode | fs.ModeDir, uid, gid} }
	for _, c := range []struct {
		what   string
		info   fake
		shared bool
		refuse string
	}{
		{"the user's own", dir(0o755, 1000, 1000), false, ""},
		{"root's", dir(0o755, 0, 0), false, ""},
		{"another's", dir(0o755, 1001, 1000), false, "belongs to user 1001"},
		{"another's that nobody else reads", dir(0o700, 1001, 1001), false, "belongs to user 1001"},
		{"the user's by umask 002", dir(0o775, 1000, 1000), false, ""},
		{"a group's", dir(0o775, 1000, 100), false, "can be written by group"},
		{"root's of the user's group", dir(0o775, 0, 1000), false, "can be written by group"},
		{"everybody's", dir(0o777, 1000, 1000), false, "can be written by everybody"},
		{"everybody's but the group's", dir(0o757, 1000, 100), false, "can be written by everybody"},
		{"/tmp", dir(0o777|fs.ModeSticky, 0, 0), true, ""},
		{"a group's /tmp", dir(0o770|fs.ModeSticky, 0, 100), true, ""},
		{"another's /tmp", dir(0o777|fs.ModeSticky, 1001, 0), false, "belongs to user 1001"},
		{"a sticky file", fake{0o666 | fs.ModeSticky, 1000, 1000}, false, "can be written by everybody"},
		{"a file", fake{0o644, 1000, 1000}, false, ""},
	} {
		shared, err := r.judge("/a/folder", c.info)
		if shared != c.shared || (err == nil) != (c.refuse == "") {
			t.Errorf("%s: %v, %v", c.what, shared, err)
		}
		if err != nil && (!strings.Contains(err.Error(), c.refuse) || !strings.Contains(err.Error(), "/a/folder") || errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), "/a/folder")) {
			t.Errorf("%s: %v, code %d, hint %q; want %q", c.what, err, errs.Code(err), errs.Hint(err), c.refuse)
		}
	}
}

func TestAlone(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:100::/home/bob:/bin/sh\nbroken\neve:x:1002:1002::/:/bin/sh\nmallory:x:1003:1002::/:/bin/sh\n"
	const group = "root:x:0:\nann:x:1000:\nusers:x:100:bob,ann\nbroken\neve:x:1002:\nshared:x:1004:ann,bob\nown:x:1005:ann\n"
	for _, c := range []struct {
		group, owner uint32
		want         bool
	}{
		{0, 0, true}, {1000, 1000, true}, {1005, 1000, true},
		{1000, 0, false},    // ann's group, on a folder of root's
		{100, 1001, false},  // has other members
		{1002, 1002, false}, // it is also another user's primary group
		{1004, 1000, false},
		{9999, 1000, false}, // its members are unknown
		{1000, 9999, false},
	} {
		if got := alone(strings.NewReader(passwd), strings.NewReader(group), c.group, c.owner); got != c.want {
			t.Errorf("group %d of owner %d: %v", c.group, c.owner, got)
		}
	}
}

// A path is only as trusted as its worst folder, and links are followed to
// their targets.
func TestFolder(t *testing.T) {
	root := t.TempDir() // below /tmp, which is sticky
	mkdir := func(mode fs.FileMode, parts ...string) string {
		path := filepath.Join(append([]string{root}, parts...)...)
		must.OK(t, errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, mode)))
		return path
	}
	good := mkdir(0o755, "good", "deep")
	open := mkdir(0o777, "open")
	below := mkdir(0o755, "open", "below")
	sticky := mkdir(0o777|fs.ModeSticky, "sticky")
	ours := mkdir(0o755, "sticky", "ours")
	link := filepath.Join(root, "link")
	dangling := filepath.Join(root, "dangling")
	must.OK(t, errors.Join(os.Symlink(below, link), os.Symlink(filepath.Join(root, "none"), dangling)))
	for path, refuse := range map[string]string{
		good: "", ours: "", filepath.Join(good, "not", "there", "yet"): "",
		open: open + " (mode", below: open + " (mode", link: open + " (mode", filepath.Join(below, "not", "yet"): open + " (mode",
		sticky: "can be written by others", filepath.Join(sticky, "not-yet"): "",
		dangling: "a link to what is not there",
	} {
		got, err := Folder(path)
		if refuse == "" && (err != nil || got != path) || refuse != "" && (err == nil || !strings.Contains(err.Error(), refuse)) {
			t.Errorf("%s: %s, %v; want %q", path, got, err, refuse)
		}
	}
	if os.Geteuid() == 0 {
		must.OK(t, os.Chown(good, 4242, 0))
		if _, err := Folder(filepath.Join(good, "more")); err == nil || !strings.Contains(err.Error(), good+" belongs to user 4242") {
			t.Errorf("another's: %v", err)
		}
		if _, err := Folder(good, 4242); err != nil {
			t.Errorf("another's, who is trusted: %v", err)
		}
		t.Setenv("SUDO_UID", "4242")
		if _, err := Folder(good); err != nil {
			t.Errorf("that of whoever called sudo: %v", err)
		}
	}
}

func TestTree(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "a", "go.mod")
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(root, "a"), 0o755), os.WriteFile(file, nil, 0o644), os.Symlink("/etc", filepath.Join(root, "link"))))
	if got, err := Tree(root); err != nil || got != root {
		t.Errorf("%s, %v", got, err)
	}
	for path, mode := range map[string]fs.FileMode{file: 0o666, filepath.Join(root, "a"): 0o777 | fs.ModeSticky} {
		must.OK(t, os.Chmod(path, mode))
		if _, err := Tree(root); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s of mode %v: %v", path, mode, err)
		}
		must.OK(t, os.Chmod(path, 0o755))
	}
}
