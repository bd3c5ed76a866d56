"""A key that never leaves this program, a request for a certificate on it, and what has to be true of the answer."""

import base64

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from provider import expect, expect_equal

USER = "system:customer-break-glass:system-admin"
ORGANISATION = "system:masters"


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


def signing_request(key, user=USER, organisation=ORGANISATION):
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def check(credential, key):
    """The kubeconfig has a certificate on our key, no key, and everything else that is needed to use it."""
    document = yaml.safe_load(credential.kubeconfig)
    user = only(document["users"])
    cluster = only(document["clusters"])
    context = only(document["contexts"])
    names = (cluster["name"], user["name"], context["name"], document["current-context"])
    expect_equal(names, ("cluster", "admin", "admin", "admin"), "the names in the kubeconfig")
    expect("client-key" not in user["user"] and "client-key-data" not in user["user"], "no private key", user)
    expect("PRIVATE KEY" not in credential.kubeconfig, "no private key anywhere", "one")
    expect(cluster["cluster"]["server"].startswith("https://"), "an https server", cluster)
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    expect(x509.load_pem_x509_certificates(authority), "a certificate authority", authority)

    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    expect_equal(public(certificate.public_key()), public(key.public_key()), "the key of the certificate")
    common_name = only(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)).value
    organisation = only(certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)).value
    expect_equal((common_name, organisation), (USER, ORGANISATION), "the subject of the certificate")
    difference = abs((certificate.not_valid_after_utc - credential.expiration_timestamp).total_seconds())
    expect(difference <= 1, "expirationTimestamp is the certificate's", difference)


def public(key):
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def only(items):
    expect_equal(len(items), 1, "the number of items")
    return items[0]
