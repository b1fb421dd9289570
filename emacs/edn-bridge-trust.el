;;; edn-bridge-trust.el --- See what is trusted before it is  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; To trust a project lets its configuration widen permissions and run
;; commands.  Whoever writes /trust sees first what it lets run, as the bridge
;; tells, and the configuration itself, and trusts it by a button below it,
;; while it is what was shown.

;;; Code:

(require 'cl-lib)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-view)

(defconst edn-bridge-trust--limit 100000
  "How many bytes of a file are shown at most.")

(defconst edn-bridge-trust--count 100
  "How many files of a project are shown at most.")

(defvar-local edn-bridge-trust--shown nil
  "What this buffer shows: a list of files, texts and digests.")

(defvar-local edn-bridge-trust--chat nil
  "The chat buffer whose project this buffer is about.")

(edn-bridge-define-view-mode edn-bridge-trust-mode special-mode "Trust"
  "Major mode of a buffer that shows what would be trusted."
  (setq-local revert-buffer-function #'edn-bridge-trust--revert))

(defun edn-bridge-trust--revert (&rest _)
  "Ask again what this buffer's project lets run, and show it."
  (unless (buffer-live-p edn-bridge-trust--chat)
    (user-error "The chat is gone"))
  (with-current-buffer edn-bridge-trust--chat
    (edn-bridge-trust)))

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
  "Show what this chat's project configures, with a button that trusts it.
What it lets run stands first."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (unless (edn-bridge-trust--files)
      (user-error "This project has no configuration that could be trusted"))
    (edn-bridge-rpc-request
     conn "trust_preview" nil
     :on-success (lambda (data)
                   (edn-bridge-chat-with-buffer conn
                     (edn-bridge-trust--show data)))
     ;; A bridge that cannot tell has the files all the same.
     :on-error (lambda (_frame)
                 (edn-bridge-chat-with-buffer conn
                   (edn-bridge-trust--show nil))))))

(defun edn-bridge-trust--insert-preview (preview)
  "Insert what PREVIEW, as the bridge tells it, lets run, and its problems."
  (let ((runs (append (plist-get preview :runs) nil))
        (problems (append (plist-get preview :problems) nil))
        (from (point)))
    (when (equal (edn-bridge-chat-word (plist-get preview :trust)) "changed")
      (insert (propertize "It was trusted, and has changed since.\n"
                          'face 'edn-bridge-accent)))
    (cond
     ((null preview))
     ((null runs)
      (insert "\nIt lets nothing run by itself.\n"))
     (t
      (insert "\n" (propertize "What it lets run" 'face 'edn-bridge-title) "\n")
      (let ((start (point)))
        (dolist (run runs)
          (insert (edn-bridge-visible-label
                   (format "%s %s: %s"
                           (edn-bridge-chat-word (plist-get run :kind))
                           (edn-bridge-chat-word (plist-get run :name))
                           (or (plist-get run :text) "")))
                  "\n"))
        (add-text-properties start (point) '(line-prefix "│ "
                                             wrap-prefix "│   ")))))
    (dolist (problem problems)
      (insert (propertize (concat "! " (edn-bridge-visible-label problem) "\n")
                          'face 'edn-bridge-error)))
    (edn-bridge-visible-region from (point) 'strict)))

(defvar-local edn-bridge-trust--told nil
  "Hash table of the digests that the bridge told of what this buffer shows.
It may know of more files than are shown, such as those that hooks name.")

(defun edn-bridge-trust--table (map)
  "Return MAP, as it was read, as a hash table from strings."
  (if (hash-table-p map)
      map
    (let ((table (make-hash-table :test #'equal)))
      (cl-loop for (key value) on map by #'cddr
               do (puthash (if (stringp key) key (edn-bridge-chat-word key))
                           value table))
      table)))

(defun edn-bridge-trust--same-p (files told)
  "Return non-nil if FILES have the digests that TOLD, a table, has of them."
  (let ((same t))
    (maphash (lambda (name digest)
               (let ((other (gethash name told)))
                 (when (and other digest (not (equal other digest)))
                   (setq same nil))))
             (edn-bridge-trust--digests files))
    same))

(defun edn-bridge-trust--show (preview)
  "Show what this chat's project configures, and PREVIEW, which may be nil."
  (let ((chat (current-buffer))
        (files (edn-bridge-trust--files))
        (folder default-directory)
        (told (edn-bridge-trust--table (plist-get preview :files)))
        (whole t))
    (unless (edn-bridge-trust--same-p files told)
      (user-error "The configuration is being changed; write /trust again"))
    (with-current-buffer (get-buffer-create "*edn-bridge trust*")
      (edn-bridge-trust-mode)
      (edn-bridge-visible-setup)
      (setq default-directory folder
            edn-bridge-trust--chat chat
            edn-bridge-trust--shown files
            edn-bridge-trust--told told)
      (let ((inhibit-read-only t))
        (erase-buffer)
        (insert "Once this is trusted, it can widen permissions, and its hooks and"
                " workflows run\ncommands.  The files that its hooks name are"
                " trusted with it.\n")
        (edn-bridge-trust--insert-preview preview)
        (pcase-dolist (`(,file ,text ,digest) files)
          (insert "\n" (propertize (edn-bridge-visible-label
                                    (file-relative-name file folder))
                                   'face 'edn-bridge-title)
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
                                'face 'edn-bridge-accent))))
        (insert "\n")
        (if (not whole)
            (insert (propertize "What is not shown whole cannot be trusted here.\n"
                                'face 'edn-bridge-accent))
          (insert-text-button "[Trust this]" 'face 'edn-bridge-button 'follow-link t
                              'action (lambda (_button)
                                        (edn-bridge-trust--agree chat)))
          (insert " "))
        (insert-text-button "[Leave it]" 'face 'edn-bridge-button 'follow-link t
                            'action (lambda (_button) (quit-window)))
        (insert "\n")
        (goto-char (point-min)))
      (pop-to-buffer (current-buffer)))))

(defun edn-bridge-trust--agree (chat)
  "Trust for CHAT what this buffer shows, if the files are still the same."
  (unless (buffer-live-p chat)
    (user-error "The chat is gone"))
  (let ((shown edn-bridge-trust--shown)
        (told edn-bridge-trust--told))
    (with-current-buffer chat
      (unless (equal shown (edn-bridge-trust--files))
        (user-error "The configuration was changed meanwhile; write /trust again"))
      (let ((conn (edn-bridge-chat-current)))
        (edn-bridge-rpc-request
         ;; It could be changed on the way to the bridge.
         conn "trust_project"
         (list :trusted t
               :files (if (zerop (hash-table-count told))
                          (edn-bridge-trust--digests shown)
                        told))
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
