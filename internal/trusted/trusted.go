// Package trusted checks that only the user and root can write to a folder and
// everything that leads to it: programs from there run with the user's rights,
// and a local lab's user is root.
//
// It does not read access control lists; a group that may write through them
// shows up in the group bits, which it does check.
package trusted

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// unmapped is the owner, inside a user namespace, of files whose owner is not
// mapped into it.
const unmapped = 65534

// rules says who may write.
type rules struct {
	owners []uint32
	// private reports whether a group has no members but owner.
	private func(group, owner uint32) bool
}

// Folder resolves the links in a path and returns an error, with exit code 2, if
// someone other than root and the user could have written its contents, or can:
// by owning it or a folder above, or by write permission. Under sudo, the
// calling user counts as the user, and so do the user IDs in accept. For a path
// that does not exist yet, Folder checks the existing part; check again after
// creating the rest.
func Folder(path string, accept ...uint32) (resolved string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for resolved, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist); resolved, err = filepath.EvalSymlinks(path) {
		if info, lerr := os.Lstat(path); lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf("%s is a link to what is not there", path)
		}
		path, rest = filepath.Dir(path), filepath.Join(filepath.Base(path), rest)
	}
	if err != nil {
		return "", err
	}
	r := users(accept)
	for at := string(filepath.Separator); ; {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		shared, err := r.judge(at, info)
		if err != nil {
			return "", err
		}
		if at == resolved {
			if shared && rest == "" {
				return "", writable(at, info, "others")
			}
			return filepath.Join(resolved, rest), nil
		}
		next, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(resolved, at), string(filepath.Separator)), string(filepath.Separator))
		at = filepath.Join(at, next)
	}
}

// Tree is [Folder] that also checks everything in the folder.
func Tree(path string, accept ...uint32) (resolved string, err error) {
	if resolved, err = Folder(path, accept...); err != nil {
		return "", err
	}
	r := users(accept)
	return resolved, filepath.WalkDir(resolved, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == resolved {
			return err
		}
		info, err := d.Info()
		if err != nil || d.Type()&fs.ModeSymlink != 0 { // the mode of a link is meaningless
			return err
		}
		shared, err := r.judge(at, info)
		if err == nil && shared {
			err = writable(at, info, "others")
		}
		return err
	})
}

// Owner returns the user ID of a path's owner.
func Owner(path string) (uint32, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s: nothing says whose it is", path)
	}
	return s.Uid, nil
}

func users(accept []uint32) rules {
	r := rules{owners: append([]uint32{0, uint32(os.Geteuid())}, accept...), private: private}
	if os.Geteuid() == 0 {
		if uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32); err == nil {
			r.owners = append(r.owners, uint32(uid))
		}
	}
	// In a user namespace root's folders appear as unmapped, and unmapped users
	// cannot be distinguished there anyway.
	if ids, err := os.ReadFile("/proc/self/uid_map"); err == nil && !slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"}) {
		r.owners = append(r.owners, unmapped)
	}
	return r
}

// judge checks one folder or file. shared reports that others may add entries to
// it but not replace existing ones, as in /tmp.
func (r rules) judge(path string, info fs.FileInfo) (shared bool, err error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, fmt.Errorf("%s: nothing says whose it is", path)
	}
	if !slices.Contains(r.owners, s.Uid) {
		err := errs.Usage("%s belongs to %s, who could have you run what they like", path, name(s.Uid))
		return false, errs.WithHint(err, "use a folder of your own, or make this one yours: chown %d %s", os.Geteuid(), path)
	}
	by := ""
	switch {
	case info.Mode()&0o002 != 0:
		by = "everybody"
	case info.Mode()&0o020 != 0 && !r.private(s.Gid, s.Uid):
		by = "group " + groupName(s.Gid)
	}
	switch {
	case by == "":
		return false, nil
	case info.IsDir() && info.Mode()&fs.ModeSticky != 0:
		return true, nil
	}
	return false, writable(path, info, by)
}

func writable(path string, info fs.FileInfo, by string) error {
	err := errs.Usage("%s (mode %v) can be written by %s, who could have you run what they like", path, info.Mode(), by)
	return errs.WithHint(err, "use a folder of your own, or take that right away: chmod go-w %s", path)
}

func name(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username + " (user " + id + ")"
	}
	return "user " + id
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// private reports, from the system's files, whether a group is a user's private
// group. Many distributions create one for each user, whose umask is then 002.
func private(group, owner uint32) bool {
	passwd, err := os.Open("/etc/passwd")
	if err != nil {
		return false
	}
	defer passwd.Close()
	groups, err := os.Open("/etc/group")
	if err != nil {
		return false
	}
	defer groups.Close()
	return alone(passwd, groups, group, owner)
}

// alone reports whether owner is the only member of group, according to both
// files.
func alone(passwd, groups io.Reader, group, owner uint32) bool {
	gid, uid := strconv.FormatUint(uint64(group), 10), strconv.FormatUint(uint64(owner), 10)
	own := "" // the owner's name
	for lines := bufio.NewScanner(passwd); lines.Scan(); {
		f := strings.Split(lines.Text(), ":") // name:password:uid:gid:...
		if len(f) < 4 {
			continue
		}
		if f[2] == uid && own == "" {
			own = f[0]
		}
		if f[3] == gid && f[2] != uid {
			return false
		}
	}
	known := false
	for lines := bufio.NewScanner(groups); lines.Scan(); {
		f := strings.Split(lines.Text(), ":") // name:password:gid:members
		if len(f) < 4 || f[2] != gid {
			continue
		}
		known = true
		for member := range strings.SplitSeq(f[3], ",") {
			if member != "" && member != own {
				return false
			}
		}
	}
	return known && own != ""
}
