package istio

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"time"

	"github.com/meshtrial/meshtrial/kinds/dataplane"
)

// token is the key set created for this Mesh, and a token signed with it.
type token struct {
	jwks string // RFC 7517
	text string // RFC 7519, compact form
}

// tokenLife is the token's validity: longer than any run.
const tokenLife = 30 * 24 * time.Hour

// token creates the key and the token on first use.
func (m *Mesh) token() (token, error) {
	m.once.Do(func() { m.made, m.madeErr = newToken(time.Now()) })
	return m.made, m.madeErr
}

func newToken(now time.Time) (token, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return token{}, fmt.Errorf("generate a key for tokens: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	join := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil { // maps of strings and numbers always encode
			panic(err)
		}
		return string(text)
	}
	out := token{jwks: join(map[string]any{"keys": []any{map[string]string{
		"kty": "RSA", "use": "sig", "alg": "RS256", "kid": jwtIssuer,
		"n": encode(key.N.Bytes()), "e": encode(big.NewInt(int64(key.E)).Bytes()),
	}}})}
	head := join(map[string]string{"alg": "RS256", "typ": "JWT", "kid": jwtIssuer})
	body := join(map[string]any{"iss": jwtIssuer, "sub": "load", "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(tokenLife).Unix()})
	signed := encode([]byte(head)) + "." + encode([]byte(body))
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return token{}, fmt.Errorf("sign a token: %w", err)
	}
	out.text = signed + "." + encode(signature)
	return out, nil
}

// RequestHeaders returns the headers of requests in all cells of a study with
// these levels of filters.
func (m *Mesh) RequestHeaders(filters []string) (map[string]string, error) {
	for _, level := range filters {
		if dataplane.HasPart(level, dataplane.PartJWTToken) {
			t, err := m.token()
			if err != nil {
				return nil, err
			}
			return map[string]string{"Authorization": "Bearer " + t.text}, nil
		}
	}
	return nil, nil
}
