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

// unreached explains why the request for the version failed, with a hint.
func (l *Lab) unreached(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return l.answered(status.Status())
	}
	var untrusted *tls.CertificateVerificationError
	var garbled *json.SyntaxError
	var other *json.UnmarshalTypeError
	try := l.try()
	switch {
	case strings.Contains(err.Error(), "getting credentials: "): // client-go's plugin/pkg/client/auth/exec says so in words alone
		return errs.WithHint(fmt.Errorf("the login program for %s gave no credentials, so nothing was asked of the cluster: %w", l.where(), err),
			"log in to the cluster again, see what that program says (it is under exec in the kubeconfig), or name another context with --context%s", try)
	case errors.As(err, &untrusted):
		return errs.WithHint(fmt.Errorf("the server at %s, for %s, has a certificate that cannot be trusted: %w", l.config.Host, l.where(), err),
			"check that the kubeconfig belongs to this cluster, that no proxy answers in its place, and that this machine's clock is right; another context is named with --context%s", try)
	case errors.Is(err, http.ErrSchemeMismatch):
		return errs.WithHint(fmt.Errorf("the server at %s, for %s, does not speak TLS: %w", l.config.Host, l.where(), err),
			"check that address and port are those of the API server; another context is named with --context%s", try)
	case errors.As(err, &garbled), errors.As(err, &other), errors.Is(err, errNoVersion):
		return errs.WithHint(fmt.Errorf("the server at %s, for %s, is not an API server: %w", l.config.Host, l.where(), err),
			"check that the address is right, and that no proxy answers in the cluster's place; another context is named with --context%s", try)
	}
	return errs.WithHint(fmt.Errorf("the cluster of %s does not answer: %w", l.where(), err),
		"check that the cluster runs and that this machine reaches it, or name another context with --context%s", try)
}

// answered is [Lab.unreached] for an HTTP status other than success.
func (l *Lab) answered(status metav1.Status) error {
	says, try := fmt.Sprintf("%d %s", status.Code, http.StatusText(int(status.Code)))+message(status), l.try()
	switch {
	case status.Code == http.StatusUnauthorized:
		return errs.WithHint(fmt.Errorf("the API server at %s rejects the credentials of %s: it answers %s", l.config.Host, l.where(), says),
			"they may have expired: log in to the cluster again, or name another context with --context%s", try)
	case status.Code == http.StatusForbidden:
		return errs.WithHint(fmt.Errorf("the API server at %s does not tell its version to %s: it answers %s", l.config.Host, l.where(), says),
			"Kubernetes tells it to everybody unless an administrator or a proxy forbids that: ask there, log in to the cluster again, or name another context with --context%s", try)
	case strings.Contains(says, "HTTP request to an HTTPS server"): // net/http's Server
		return errs.WithHint(fmt.Errorf("the server at %s, for %s, speaks only TLS: it answers %s", l.config.Host, l.where(), says),
			"the address of an API server begins with https://; another context is named with --context%s", try)
	}
	return errs.WithHint(fmt.Errorf("the server at %s, for %s, is not a healthy API server: to /version it answers %s", l.config.Host, l.where(), says),
		"check that the address is right and the cluster is healthy; another context is named with --context%s", try)
}

// message is what the server itself said, unless that is a web page or repeats
// the status.
func message(status metav1.Status) string {
	text := status.Message
	if status.Details != nil { // of an answer that is no object of Kubernetes the message is client-go's
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

// try ends a hint with the kubectl command that makes the same request. A pod has none.
func (l *Lab) try() string {
	switch len(l.files) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; to try it: kubectl --kubeconfig %s --context %s version", l.files[0], l.context)
	}
	return fmt.Sprintf("; to try it: kubectl --context %s version", l.context) // of KUBECONFIG's files
}

// refused adds a hint to a refused access review: every logged-in user may make one.
func refused(err error) error {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return errs.WithHint(err, "every user known to the cluster may ask that: log in, or name another context with --context; `kubectl auth whoami` shows who you are there")
	}
	return err
}
