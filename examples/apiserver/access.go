package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/nslifecycle/nslifecycle/namespace/apiserver/authorization"
)

// access is authentication and authorization. The zero access admits every client.
type access struct {
	bearers   []bearer
	users     map[[sha256.Size]byte]authorization.User // by hash of the token, so that the lookup time reveals nothing
	server    *tls.Config
	authority []byte // certificate for clients, as PEM
	authorize authorization.Authorizer
}

// bearer is one line of the token file.
type bearer struct {
	token string
	user  authorization.User
}

// access reads the token and grant files.
func (c config) access() (access, error) {
	var a access
	if c.tokens == "" {
		return a, nil
	}
	var err error
	if a.bearers, err = readTokens(c.tokens); err != nil {
		return access{}, fmt.Errorf("--tokens: %w", err)
	}
	a.users = make(map[[sha256.Size]byte]authorization.User, len(a.bearers))
	for _, b := range a.bearers {
		a.users[sha256.Sum256([]byte(b.token))] = b.user
	}
	if len(a.users) < len(a.bearers) {
		return access{}, fmt.Errorf("--tokens: %s: two users have the same token", c.tokens)
	}
	if c.grants != "" {
		if a.authorize, err = readGrants(c.grants); err != nil {
			return access{}, fmt.Errorf("--grants: %w", err)
		}
	}
	a.server, a.authority, err = selfSigned(c.listen)
	return a, err
}

// readTokens reads lines of token,user,uid,"group,group" in the format of Kubernetes. The uid and
// the groups are optional.
func readTokens(path string) ([]bearer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.FieldsPerRecord = -1
	r.Comment = '#'
	records, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s has no tokens", path)
	}
	var bearers []bearer
	for i, record := range records {
		if len(record) < 2 || record[0] == "" || record[1] == "" {
			return nil, fmt.Errorf("%s: record %d: a token and a user are required", path, i+1)
		}
		b := bearer{token: record[0], user: authorization.User{Name: record[1]}}
		if len(record) > 3 && record[3] != "" {
			b.user.Groups = strings.Split(record[3], ",")
		}
		bearers = append(bearers, b)
	}
	return bearers, nil
}

// readGrants reads the grants of package authorization.
func readGrants(path string) (authorization.Authorizer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	grants, err := authorization.Parse(text)
	if err == nil {
		var authorizer *authorization.Grants
		if authorizer, err = authorization.New(grants); err == nil {
			return authorizer, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

var errUnknown = errors.New("a valid bearer token is required")

// authenticate returns the user of a request's token.
func (a access) authenticate(r *http.Request) (authorization.User, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	user, known := a.users[sha256.Sum256([]byte(token))]
	if !known || !strings.EqualFold(scheme, "bearer") {
		return authorization.User{}, errUnknown
	}
	return user, nil
}
