package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/kubernetes"
	"github.com/meshtrial/meshtrial/internal/shell"
)

// errNoVersion reports an answer that is JSON without a version.
var errNoVersion = errors.New("its answer to /version has no version")

// reach asks the cluster for its version, which every user may read.
func (l *Lab) reach(ctx context.Context, client kubernetes.Interface) error {
	version, err := client.Discovery().ServerVersion(ctx)
	if err == nil && version.GitVersion == "" {
		err = errNoVersion
	}
	if err != nil {
		return l.unreached(err)
	}
	l.version = version.GitVersion
	return nil
}

// Reason says why a cluster did not report its version.
type Reason string

// Reasons.
const (
	NoAnswer      Reason = "no-answer"
	NoCredentials Reason = "no-credentials" // the kubeconfig's login program failed
	Rejected      Reason = "credentials-rejected"
	Forbidden     Reason = "forbidden"
	Untrusted     Reason = "certificate-untrusted"
	NotTLS        Reason = "not-tls"
	OnlyTLS       Reason = "only-tls"
	NotAPIServer  Reason = "not-an-api-server"
	Unhealthy     Reason = "unhealthy" // any other HTTP status
)

// reasons holds the words of each reason. The text takes the host, the context with its
// files, and the detail.
var reasons = map[Reason]struct{ text, hint string }{
	NoAnswer: {"the cluster of %[2]s does not respond: %[3]s",
		"check that the cluster is running and reachable from this machine, or name another context with --context"},
	NoCredentials: {"the login program for %[2]s returned no credentials: %[3]s",
		"log in to the cluster again, run that program by hand (see exec in the kubeconfig), or name another context with --context"},
	Rejected: {"the API server at %[1]s rejects the credentials of %[2]s: %[3]s",
		"they may have expired: log in to the cluster again, or name another context with --context"},
	Forbidden: {"the API server at %[1]s refuses to report its version to %[2]s: %[3]s",
		"any user may read it unless an administrator or a proxy forbids that: ask them, log in to the cluster again, or name another context with --context"},
	Untrusted: {"the server at %[1]s, for %[2]s, has a certificate that cannot be trusted: %[3]s",
		"check that the kubeconfig belongs to this cluster, that no proxy answers in its place, and that this machine's clock is right; or name another context with --context"},
	NotTLS: {"the server at %[1]s, for %[2]s, does not speak TLS: %[3]s",
		"check that address and port are those of the API server, or name another context with --context"},
	OnlyTLS: {"the server at %[1]s, for %[2]s, speaks only TLS: it answers %[3]s",
		"the address of an API server begins with https://: fix it, or name another context with --context"},
	NotAPIServer: {"the server at %[1]s, for %[2]s, is not an API server: %[3]s",
		"check that the address is right and that no proxy answers in the cluster's place, or name another context with --context"},
	Unhealthy: {"the server at %[1]s, for %[2]s, is not a healthy API server: /version returns %[3]s",
		"check that the address is right and that the cluster is healthy, or name another context with --context"},
}

// UnreachedError reports that a cluster did not report its version.
type UnreachedError struct {
	Reason Reason
	Host   string
	Where  string // the context and its files
	Detail string // the HTTP status with the server's message, or the error
	Err    error
}

func (e *UnreachedError) Error() string {
	return fmt.Sprintf(reasons[e.Reason].text, e.Host, e.Where, e.Detail)
}

func (e *UnreachedError) Unwrap() error { return e.Err }

// unreached explains why the request for the version failed, with a hint.
func (l *Lab) unreached(err error) error {
	reason, detail := diagnose(err)
	return errs.WithHint(&UnreachedError{Reason: reason, Host: l.config.Host, Where: l.where(), Detail: detail, Err: err},
		"%s%s", reasons[reason].hint, l.try())
}

func diagnose(err error) (reason Reason, detail string) {
	var answer apierrors.APIStatus
	var untrusted *tls.CertificateVerificationError
	var garbled *json.SyntaxError
	var other *json.UnmarshalTypeError
	switch {
	case errors.As(err, &answer):
		status := answer.Status()
		detail = fmt.Sprintf("%d %s", status.Code, http.StatusText(int(status.Code))) + message(status)
		switch {
		case status.Code == http.StatusUnauthorized:
			return Rejected, detail
		case status.Code == http.StatusForbidden:
			return Forbidden, detail
		case strings.Contains(detail, "HTTP request to an HTTPS server"): // the text of net/http's Server
			return OnlyTLS, detail
		}
		return Unhealthy, detail
	case strings.Contains(err.Error(), "getting credentials: "): // client-go's plugin/pkg/client/auth/exec has no type for it
		reason = NoCredentials
	case errors.As(err, &untrusted):
		reason = Untrusted
	case errors.Is(err, http.ErrSchemeMismatch):
		reason = NotTLS
	case errors.As(err, &garbled), errors.As(err, &other), errors.Is(err, errNoVersion):
		reason = NotAPIServer
	default:
		reason = NoAnswer
	}
	return reason, err.Error()
}

// message returns the server's own message, unless that is a web page or repeats the
// status.
func message(status metav1.Status) string {
	text := status.Message
	if status.Details != nil { // if the answer is not a Kubernetes object, client-go wrote the message
		for _, cause := range status.Details.Causes {
			if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
				text = cause.Message
			}
		}
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if text == "" || text == "unknown" || strings.HasPrefix(text, "<") || text == http.StatusText(int(status.Code)) {
		return ""
	}
	return ": " + text
}

// try ends a hint with the kubectl command that makes the same request; inside a pod it
// adds nothing.
func (l *Lab) try() string {
	switch len(l.files) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; try it with: kubectl --kubeconfig %s --context %s version", shell.Quote(l.files[0]), shell.Quote(l.context))
	}
	return fmt.Sprintf("; try it with: kubectl --context %s version", shell.Quote(l.context)) // with the files of KUBECONFIG
}

// refused adds a hint to a rejected access review, which every authenticated user may
// make.
func refused(err error) error {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return errs.WithHint(err, "any authenticated user may ask that: log in, or name another context with --context; `kubectl auth whoami` shows your user there")
	}
	return err
}
