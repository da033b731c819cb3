// Says what went wrong with a security key; the ceremony itself is allauth's.

const place = document.querySelector("#webauthn-problem");
const supported = Boolean(window.isSecureContext && window.PublicKeyCredential);

if (!supported) {
  place.textContent = place.dataset.missing;
  for (const button of document.querySelectorAll("button[id^=mfa_webauthn]")) button.disabled = true;
}
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  place.textContent = place.dataset.failed;
});
