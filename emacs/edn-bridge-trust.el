;;; edn-bridge-trust.el --- See what is trusted before it is  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; To trust a project lets its configuration widen permissions and run
;; commands.  Whoever writes /trust sees that configuration first, and
;; trusts it by a button below it, while it is what was shown.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)

(defconst edn-bridge-trust--limit 100000
  "How many bytes of a file are shown at most.")

(defconst edn-bridge-trust--count 100
  "How many files of a project are shown at most.")

(defvar-local edn-bridge-trust--shown nil
  "What this buffer shows: a list of files, texts and digests.")

(defun edn-bridge-trust--files ()
  "Return what this chat's project configures: lists of file, text, digest.
The digest is nil where the text is not the whole file."
  (let ((folder (expand-file-name ".edn-bridge/" default-directory)))
    (mapcar #'edn-bridge-trust--file
            (seq-take
             (seq-filter
              #'file-regular-p
              (append (list (expand-file-name "config.edn" folder))
                      (let ((workflows (expand-file-name "workflows" folder)))
                        (and (file-directory-p workflows)
                             (directory-files workflows t "\\.edn\\'")))))
             edn-bridge-trust--count))))

(defun edn-bridge-trust--file (file)
  "Return FILE, its text, and its digest if that is the whole text."
  (with-temp-buffer
    (set-buffer-multibyte nil)
    (insert-file-contents-literally file nil 0 (1+ edn-bridge-trust--limit))
    (let ((whole (<= (buffer-size) edn-bridge-trust--limit)))
      (list file
            (decode-coding-string (buffer-string) 'utf-8)
            (and whole (secure-hash 'sha256 (buffer-string)))))))

(defun edn-bridge-trust ()
  "Show what this chat's project configures, with a button that trusts it."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat-current)
  (let ((chat (current-buffer))
        (files (edn-bridge-trust--files))
        (folder default-directory)
        (whole t))
    (unless files
      (user-error "This project has no configuration that could be trusted"))
    (with-current-buffer (get-buffer-create "*edn-bridge trust*")
      (special-mode)
      (edn-bridge-visible-setup)
      (setq default-directory folder
            edn-bridge-trust--shown files)
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert "Once this is trusted, it can widen permissions, and its hooks and"
                " workflows run\ncommands.  The files that its hooks name are"
                " trusted with it.\n")
        (pcase-dolist (`(,file ,text ,digest) files)
          (insert "\n" (propertize (edn-bridge-visible-label
                                    (file-relative-name file folder))
                                   'face 'bold)
                  "\n")
          (let ((from (point)))
            (insert (edn-bridge-visible-break text 0))
            (unless (bolp) (insert "\n"))
            (edn-bridge-visible-region from (point) 'strict)
            ;; No text of a file can look like the buttons below it.
            (add-text-properties from (point) '(line-prefix "│ "
                                                wrap-prefix "│ ")))
          (unless digest
            (setq whole nil)
            (insert (propertize "The rest of this file is not shown.\n"
                                'face 'warning))))
        (insert "\n")
        (if (not whole)
            (insert (propertize "What is not shown whole cannot be trusted here.\n"
                                'face 'warning))
          (insert-text-button "[Trust this]" 'follow-link t
                              'action (lambda (_button)
                                        (edn-bridge-trust--agree chat)))
          (insert " "))
        (insert-text-button "[Leave it]" 'follow-link t
                            'action (lambda (_button) (quit-window)))
        (insert "\n")
        (goto-char (point-min)))
      (pop-to-buffer (current-buffer)))))

(defun edn-bridge-trust--agree (chat)
  "Trust for CHAT what this buffer shows, if the files are still the same."
  (unless (buffer-live-p chat)
    (user-error "The chat is gone"))
  (let ((shown edn-bridge-trust--shown))
    (with-current-buffer chat
      (unless (equal shown (edn-bridge-trust--files))
        (user-error "The configuration was changed meanwhile; write /trust again"))
      (let ((conn (edn-bridge-chat-current)))
        (edn-bridge-rpc-request
         ;; It could be changed on the way to the bridge.
         conn "trust_project"
         (list :trusted t :files (edn-bridge-trust--digests shown))
         :on-success (lambda (_data)
                       (edn-bridge-chat-with-buffer conn
                         (edn-bridge-chat-set-status 'edn-bridge-trust nil)
                         (edn-bridge-chat-notice "This project is trusted.")))))))
  (quit-window))

(defun edn-bridge-trust--digests (shown)
  "Return a table of the digests of SHOWN, by path from the project's folder."
  (let ((digests (make-hash-table :test #'equal)))
    (pcase-dolist (`(,file ,_ ,digest) shown)
      (puthash (file-relative-name file default-directory) digest digests))
    digests))

(defun edn-bridge-trust--show-state ()
  "Where this chat's project has a configuration that is not trusted, say so."
  (let ((conn edn-bridge-chat--conn))
    (edn-bridge-chat-set-status 'edn-bridge-trust nil)
    ;; To look for a file on another host could take a while.
    (when (and (not (file-remote-p default-directory))
               (file-exists-p (expand-file-name ".edn-bridge/config.edn"
                                                default-directory)))
      (edn-bridge-rpc-request
       conn "query_eql"
       '(:query "[{:psi.config/settings [:psi.config/key :psi.config/value]}]")
       :on-success
       (lambda (data)
         (edn-bridge-chat-with-buffer conn
           (when (edn-bridge-trust--denied-p (plist-get data :result))
             (edn-bridge-chat-set-status
              'edn-bridge-trust
              '("This project's configuration is not trusted and may only narrow what is allowed; /trust shows it")))))
       :on-error #'ignore))))

(defun edn-bridge-trust--denied-p (result)
  "Return non-nil if RESULT of a query says that the project is not trusted."
  (seq-some (lambda (setting)
              (and (eq (plist-get setting :psi.config/key) :trusted)
                   (not (edn-bridge-edn-true-p
                         (plist-get setting :psi.config/value)))))
            (plist-get result :psi.config/settings)))

(add-hook 'edn-bridge-chat-ready-hook #'edn-bridge-trust--show-state)
(edn-bridge-input-handle "trust" #'edn-bridge-trust)

(provide 'edn-bridge-trust)

;;; edn-bridge-trust.el ends here
