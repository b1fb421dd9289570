;;; edn-bridge-auth.el --- Keys of providers from auth-source  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Where the bridge says that there is no key for a provider, one is looked
;; for with auth-source, under the provider's host and the user "apikey", and
;; offered.  Whoever takes it has the program started again with the variable
;; that the bridge names: the key is in no file and in no other program.

;;; Code:

(require 'cl-lib)
(require 'auth-source)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)

(defcustom edn-bridge-auth-hosts
  '(("anthropic" . "api.anthropic.com")
    ("deepseek" . "api.deepseek.com")
    ("gemini" . "generativelanguage.googleapis.com")
    ("google" . "generativelanguage.googleapis.com")
    ("groq" . "api.groq.com")
    ("mistral" . "api.mistral.ai")
    ("openai" . "api.openai.com")
    ("openrouter" . "openrouter.ai")
    ("xai" . "api.x.ai"))
  "Hosts of providers, under which auth-source has their keys.
A provider that is not listed is looked for under its name."
  :type '(alist :key-type (string :tag "Provider") :value-type (string :tag "Host"))
  :group 'edn-bridge)

(defconst edn-bridge-auth--missing
  "There is no key for \\([^\n]+?\\)\\.[ \n]+Set \\([A-Z][A-Z0-9_]*\\)"
  "Matches what the bridge says where a provider has no key.
It names the provider, and the variable that would have one.")

(defun edn-bridge-auth--host (provider)
  "Return the host under which auth-source has the key of PROVIDER."
  (or (cdr (assoc (downcase provider) edn-bridge-auth-hosts))
      (downcase provider)))

(defun edn-bridge-auth--find (provider)
  "Return what auth-source has as the key of PROVIDER, or nil.
It is a string, or a function that returns it."
  (plist-get (car (auth-source-search :host (edn-bridge-auth--host provider)
                                      :user "apikey" :require '(:secret)
                                      :max 1))
             :secret))

(defun edn-bridge-auth--locked-p ()
  "Return non-nil if to look into auth-source may ask for a passphrase."
  (seq-some (lambda (source)
              (let ((file (if (stringp source) source
                            (plist-get (and (listp source) source) :source))))
                (and (stringp file)
                     (string-suffix-p ".gpg" file)
                     (file-exists-p file))))
            auth-sources))

(defun edn-bridge-auth--on-failure (data)
  "Where DATA, a failure, says that a key is missing, offer that of auth-source."
  (let ((text (plist-get data :error-message))
        (case-fold-search nil))
    (when (and (stringp text)
               (string-match edn-bridge-auth--missing text)
               (edn-bridge-chat-mine-p data)
               ;; On another host the command line of a program is seen.
               (not (file-remote-p default-directory)))
      (let ((provider (match-string 1 text))
            (variable (match-string 2 text))
            (chat (current-buffer)))
        (unless (assoc variable edn-bridge-chat-environment)
          ;; auth-source may ask something.
          (edn-bridge-rpc-later
           (lambda ()
             (when (buffer-live-p chat)
               (with-current-buffer chat
                 (edn-bridge-auth--offer provider variable))))))))))

(defun edn-bridge-auth--offer (provider variable)
  "Offer the key of PROVIDER that auth-source has, as VARIABLE.
Where to look may ask for a passphrase, that is offered."
  (let ((locked (edn-bridge-auth--locked-p))
        (host (edn-bridge-auth--host provider)))
    (when (or locked (edn-bridge-auth--find provider))
      (edn-bridge-chat-notice
       (if locked
           (format "Emacs can look for a key of %s in auth-source (host %s, user apikey)."
                   provider host)
         (format "auth-source has a key of %s (host %s)." provider host))
       nil
       (list (if locked "Look for it, and use it" "Use it")
             (lambda ()
               (interactive)
               (edn-bridge-auth--use provider variable)))))))

(defun edn-bridge-auth--use (provider variable)
  "Start this chat's program again with the key of PROVIDER as VARIABLE."
  (let* ((secret (or (edn-bridge-auth--find provider)
                     (user-error "The auth-source has no key under host %s, user apikey"
                                 (edn-bridge-auth--host provider))))
         (key (if (functionp secret) (funcall secret) secret)))
    (setf (alist-get variable edn-bridge-chat-environment nil nil #'equal) key)
    (message "Starting the program again with the key of %s" provider)
    (edn-bridge-chat-reconnect)))

;;;; Without any model

(defvar-local edn-bridge-auth--looked nil
  "Non-nil if this chat has offered keys because it has no model.")

(defun edn-bridge-auth--on-ready ()
  "Where this chat has no model, offer a key of auth-source."
  (when (and (edn-bridge-chat-get :setup)
             (not edn-bridge-auth--looked)
             (not (file-remote-p default-directory)))
    (setq edn-bridge-auth--looked t)
    (let ((chat (current-buffer)))
      (edn-bridge-rpc-later
       (lambda ()
         (when (buffer-live-p chat)
           (with-current-buffer chat
             (edn-bridge-auth--offer-any))))))))

(defun edn-bridge-auth--any ()
  "Return the first provider of which auth-source has a key, or nil."
  (seq-find #'edn-bridge-auth--find (mapcar #'car edn-bridge-auth-hosts)))

(defun edn-bridge-auth--variable (provider)
  "Return the variable that has the key of PROVIDER."
  (concat (upcase provider) "_API_KEY"))

(defun edn-bridge-auth--offer-any ()
  "Offer the key of any provider that auth-source has.
Where to look may ask for a passphrase, that is offered."
  (if (edn-bridge-auth--locked-p)
      (edn-bridge-chat-notice
       "Emacs can look for the key of a provider in auth-source." nil
       (list "Look for one, and use it"
             (lambda ()
               (interactive)
               (let ((provider
                      (or (edn-bridge-auth--any)
                          (user-error "No key of a provider is in auth-source"))))
                 (edn-bridge-auth--use
                  provider (edn-bridge-auth--variable provider))))))
    (when-let ((provider (edn-bridge-auth--any)))
      (edn-bridge-auth--offer provider
                              (edn-bridge-auth--variable provider)))))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-auth--on-ready)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-auth--on-failure)
(edn-bridge-chat-handle "error" #'edn-bridge-auth--on-failure)

(provide 'edn-bridge-auth)

;;; edn-bridge-auth.el ends here
