// Package bucket keeps a run directory in a store that speaks S3.
//
// A run is written to a folder, as always; a [Mirror] sends what is new there after each
// trial. What a trial's line speaks of is sent before the line, so that at any moment the
// bucket holds what a machine could hold that lost its power: [Bucket.Restore] makes a run
// directory of it that can be gone on with.
package bucket

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/internal/lazyregexp"
	"github.com/meshtrial/meshtrial/internal/wake"
)

// Keys of the Secret, and names of the files that a pod has of it.
const (
	KeyEndpoint = "endpoint"
	KeyRegion   = "region" // may be left out
	KeyAccess   = "access-key"
	KeySecret   = "secret-key"
	KeyCA       = "ca.crt" // of an endpoint by https
)

const (
	// patience is how long a store may be away, or refuse what it cannot take now.
	patience = 10 * time.Minute
	// tryAgain is how long is waited between two tries.
	tryAgain = 5 * time.Second
	// answerTime is how long a try may take, and for each byte of a file a byteTime
	// more (1 MB/s): a store that hangs ends no connection by itself.
	answerTime = time.Minute
	byteTime   = time.Microsecond
	// maxKey bounds what is read of a key of the Secret, in bytes.
	maxKey = 1 << 20
	// inParts is from what size on the client sends a file in parts, in bytes.
	inParts = 16 << 20
)

var (
	reBucket = lazyregexp.New(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	rePrefix = lazyregexp.New(`^[A-Za-z0-9._=-]+(/[A-Za-z0-9._=-]+)*$`)
)

// Parse reads s3://BUCKET[/PREFIX].
func Parse(text string) (name, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "s3://")
	name, prefix, _ = strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	if !ok || !reBucket.MatchString(name) || prefix != "" && !rePrefix.MatchString(prefix) || strings.Contains("/"+prefix+"/", "/../") {
		return "", "", errs.WithHint(errs.Usage("%s is no place in a bucket", text), "s3://BUCKET or s3://BUCKET/PREFIX; a bucket's name has 3 to 63 lower-case letters, digits, dots and dashes")
	}
	return name, prefix, nil
}

// Bucket is where one run is kept.
type Bucket struct {
	client *minio.Client
	name   string
	prefix string // of the run's objects, with a slash at its end
	where  string // for people
	// Tell is given why the store is waited for; nil: nobody.
	Tell func(text string)
	// patience, tryAgain and answerTime are the constants, but for tests.
	patience, tryAgain, answerTime time.Duration
}

// Open reads how the store is reached from the files of a Secret in dir. It asks nothing
// of the store.
func Open(dir, place, run string) (*Bucket, error) {
	name, prefix, err := Parse(place)
	if err != nil {
		return nil, err
	}
	read := func(key string) string {
		text, failed := readKey(filepath.Join(dir, key))
		if failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
		return text
	}
	endpoint, region, access, secret, ca := read(KeyEndpoint), read(KeyRegion), read(KeyAccess), read(KeySecret), read(KeyCA)
	if err != nil {
		return nil, err
	}
	for key, text := range map[string]string{KeyEndpoint: endpoint, KeyAccess: access, KeySecret: secret} {
		if text == "" {
			return nil, errs.Usage("the Secret of the store has no %s", key)
		}
	}
	at, err := url.Parse(endpoint)
	if err != nil || at.Host == "" || at.User != nil || at.Scheme != "http" && at.Scheme != "https" || strings.Trim(at.Path, "/") != "" {
		return nil, errs.WithHint(errs.Usage("the %s in the Secret of the store is no address", KeyEndpoint), "https://HOST:PORT") // it may hold a password
	}
	transport, err := transportTo(at, ca)
	if err != nil {
		return nil, err
	}
	client, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Secure: at.Scheme == "https", Region: region, Transport: transport, MaxRetries: 1})
	if err != nil {
		return nil, errs.WithCode(fmt.Errorf("store %s: %w", at.Host, err), errs.CodeUsage)
	}
	b := &Bucket{client: client, name: name, prefix: run + "/", where: "s3://" + name + "/" + run, patience: patience, tryAgain: tryAgain, answerTime: answerTime}
	if prefix != "" {
		b.prefix, b.where = prefix+"/"+b.prefix, "s3://"+name+"/"+prefix+"/"+run
	}
	return b, nil
}

// readKey reads a file of a Secret, without the line's end that people leave.
func readKey(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKey))
	return strings.TrimSpace(string(text)), err
}

// transportTo trusts the authorities of the Secret; the image of the roles has none.
func transportTo(at *url.URL, ca string) (*http.Transport, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute, DisableCompression: true}
	if at.Scheme != "https" {
		return transport, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, errs.WithHint(errs.Usage("the Secret of the store has no certificates in %s, and the pod knows no authorities of its own", KeyCA),
			"put the certificate there of the authority that has signed that of %s", at.Host)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// again does something with the store, in which so many bytes of a file pass, until it
// succeeds, or cannot.
func (b *Bucket) again(ctx context.Context, what string, bytes int64, do func(context.Context) error) error {
	limit := b.answerTime + time.Duration(bytes)*byteTime
	for began := time.Now(); ; {
		err := within(ctx, limit, do)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist): // of files here
			return fmt.Errorf("%s %s: %w", what, b.where, err)
		case Refused(err):
			return errs.WithHint(fmt.Errorf("%s %s: %w", what, b.where, err), "it is the endpoint, the keys or the bucket that are not as the store has them")
		case time.Since(began) >= b.patience:
			return fmt.Errorf("%s %s: gave up after %v: %w", what, b.where, b.patience, err)
		case b.Tell != nil:
			b.Tell(fmt.Sprintf("waiting for the store: %s %s: %v", what, b.where, err))
		}
		if err := wake.Pause(ctx, b.tryAgain); err != nil {
			return err
		}
	}
}

// within does something that may take so long.
func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := do(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("not done within %v: %w", limit.Round(time.Second), err)
	}
	return err
}

// Refused says that a store has answered, and does not change its mind by being asked again.
func Refused(err error) bool {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.Code {
	case "AccessDenied", "NoSuchBucket", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidBucketName", "AuthorizationHeaderMalformed", "PermanentRedirect", "NoSuchKey":
		return true
	}
	return false
}

// object is one of a run.
type object struct {
	name string // below the run's folder
	size int64
}

// list finds the run's objects.
func (b *Bucket) list(ctx context.Context) (all []object, err error) {
	err = b.again(ctx, "list", 0, func(ctx context.Context) error {
		all = nil
		for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: b.prefix, Recursive: true}) {
			if o.Err != nil {
				return o.Err
			}
			all = append(all, object{strings.TrimPrefix(o.Key, b.prefix), o.Size})
		}
		return ctx.Err()
	})
	return all, err
}

// Restore makes the run directory dir of what the bucket has; nothing, if that is nothing.
// heard is called for each file.
func (b *Bucket) Restore(ctx context.Context, dir string, heard func()) error {
	all, err := b.list(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, o := range all {
		if !filepath.IsLocal(o.name) {
			return fmt.Errorf("%s has %q, which lies outside of a run directory", b.where, o.name)
		}
		if err := root.MkdirAll(filepath.Dir(o.name), 0o755); err != nil {
			return err
		}
		if err := b.again(ctx, "read "+o.name+" of", o.size, func(ctx context.Context) error { return b.get(ctx, root, o.name) }); err != nil {
			return err
		}
		heard()
	}
	return nil
}

// get writes an object to a file.
func (b *Bucket) get(ctx context.Context, root *os.Root, name string) (err error) {
	object, err := b.client.GetObject(ctx, b.name, b.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer object.Close()
	info, err := object.Stat()
	if err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(file, object)
	if err = errors.Join(err, file.Close()); err == nil && n != info.Size {
		err = fmt.Errorf("%d of %d bytes came", n, info.Size)
	}
	return err
}

// Remove removes the run's objects, and what of them was sent in part. heard is called for
// each object.
func (b *Bucket) Remove(ctx context.Context, heard func()) error {
	all, err := b.list(ctx)
	for _, o := range all {
		if err == nil {
			err = b.again(ctx, "remove "+o.name+" of", 0, func(ctx context.Context) error {
				return b.client.RemoveObject(ctx, b.name, b.prefix+o.name, minio.RemoveObjectOptions{})
			})
			heard()
		}
	}
	if err == nil {
		err = b.again(ctx, "remove what was sent in part to", 0, b.abandon)
	}
	return err
}

// abandon removes what was sent of the run's files in parts and never came to its end: by a
// try that took too long, or a pod that was killed. No list of objects has it, and it takes
// room.
func (b *Bucket) abandon(ctx context.Context) (err error) {
	var left []minio.ObjectMultipartInfo
	for upload := range b.client.ListIncompleteUploads(ctx, b.name, b.prefix, true) { // to the end: else it is never closed
		if left = append(left, upload); err == nil {
			err = upload.Err
		}
	}
	if minio.ToErrorResponse(err).Code == minio.NotImplemented {
		return nil // then there are none
	}
	core := minio.Core{Client: b.client}
	for i := range left {
		if err == nil {
			err = core.AbortMultipartUpload(ctx, b.name, left[i].Key, left[i].UploadID)
		}
		if minio.ToErrorResponse(err).Code == minio.NoSuchUpload {
			err = nil
		}
	}
	return err
}
