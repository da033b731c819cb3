// Show errors of security keys; allauth's script runs the WebAuthn ceremony itself.

const problem = document.querySelector("#webauthn-problem");
const supported = Boolean(window.isSecureContext && window.PublicKeyCredential);

if (!supported) {
  problem.textContent = problem.dataset.missing;
  for (const button of document.querySelectorAll("button[id^=mfa_webauthn]")) button.disabled = true;
}
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  problem.textContent = problem.dataset.failed;
});
