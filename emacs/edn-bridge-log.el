;;; edn-bridge-log.el --- The wire log of a connection  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Keeps the last frames of each connection and shows them in a buffer.
;; Secrets are masked before a frame is kept, and long frames are truncated.

;;; Code:

(require 'ring)
(require 'edn-bridge-rpc)
(require 'edn-bridge-chat)
(require 'edn-bridge-view)

(defcustom edn-bridge-log-size 500
  "How many frames of each connection are kept.  0 keeps none."
  :type 'natnum
  :group 'edn-bridge)

(defcustom edn-bridge-log-line-limit 2000
  "How many bytes of a frame are kept."
  :type 'natnum
  :group 'edn-bridge)

(defvar edn-bridge-log--rings (make-hash-table :test #'eq :weakness 'key)
  "Rings of frames by connection.
A frame is a list of a time, a direction and a text.")

(defconst edn-bridge-log--secret
  (concat "\\(:\\(?:[a-z-]*\\(?:secret\\|password\\|token\\|api-key\\)\\|input\\)"
          "[ \t]+\\)\"\\(?:[^\"\\]\\|\\\\.\\)*\\(?:\"\\|\\'\\)")
  "Matches a key whose value is a secret, and that value.")

(defun edn-bridge-log-mask (text)
  "Return TEXT, of a frame, with the secrets in it masked."
  (if (string-match-p ":[a-z-]*\\(?:secret\\|password\\|token\\|api-key\\|input\\)[ \t]+\"" text)
      (replace-regexp-in-string edn-bridge-log--secret "\\1\"•••\"" text t)
    text))

(defun edn-bridge-log--keep (conn direction text)
  "Keep TEXT that went over CONN by DIRECTION."
  (when (> edn-bridge-log-size 0)
    (let ((ring (or (gethash conn edn-bridge-log--rings)
                    (puthash conn (make-ring edn-bridge-log-size)
                             edn-bridge-log--rings)))
          (frame (list (float-time) direction (edn-bridge-log--short text))))
      (ring-insert ring frame)
      (when-let ((buffer (edn-bridge-log--buffer conn)))
        (edn-bridge-log--append buffer frame)))))

(defun edn-bridge-log--short (text)
  "Return what is kept of TEXT: its start, masked, as characters."
  (let* ((long (> (length text) edn-bridge-log-line-limit))
         (start (if long (substring text 0 edn-bridge-log-line-limit) text)))
    (concat (edn-bridge-log-mask
             (if (multibyte-string-p start)
                 start
               (decode-coding-string start 'utf-8-unix)))
            (if long (format " … (%d in all)" (length text)) ""))))

;;;; The buffer

(defconst edn-bridge-log--buffer-limit (* 2 1024 1024)
  "How many characters a log buffer may have before its first half goes.")

(defvar-local edn-bridge-log--conn nil
  "The connection that this log buffer shows.")

(edn-bridge-define-view-mode edn-bridge-log-mode special-mode "Wire log"
  "Major mode of the wire log of a connection."
  (setq-local truncate-lines t
              revert-buffer-function #'edn-bridge-log--revert))

(defun edn-bridge-log--buffer (conn)
  "Return the live buffer with the wire log of CONN, or nil."
  (let ((buffer (get-buffer (edn-bridge-log--buffer-name conn))))
    (and buffer
         (eq conn (buffer-local-value 'edn-bridge-log--conn buffer))
         buffer)))

(defun edn-bridge-log--buffer-name (conn)
  "Return the name of the buffer for the wire log of CONN."
  (format "*%s wire log*" (edn-bridge-rpc-connection-name conn)))

(defun edn-bridge-log--append (buffer frame)
  "Add FRAME at the end of the log BUFFER."
  (with-current-buffer buffer
    (let ((inhibit-read-only t)
          (follow (eobp)))
      (save-excursion
        (goto-char (point-max))
        (edn-bridge-log--insert frame)
        (when (> (buffer-size) edn-bridge-log--buffer-limit)
          (goto-char (+ (point-min) (/ (buffer-size) 2)))
          (forward-line)
          (delete-region (point-min) (point))))
      (when follow
        (goto-char (point-max))))))

(defun edn-bridge-log--insert (frame)
  "Insert FRAME as a line."
  (pcase-let ((`(,time ,direction ,text) frame))
    (insert (format-time-string "%T.%3N " time)
            (pcase direction
              ('out (propertize "→ " 'face 'edn-bridge-log-out))
              ('in (propertize "← " 'face 'edn-bridge-log-in))
              (_ (propertize "· " 'face 'edn-bridge-muted)))
            text "\n")))

(defun edn-bridge-log--revert (&rest _)
  "Show the wire log of this buffer's connection again."
  (let ((inhibit-read-only t)
        (ring (gethash edn-bridge-log--conn edn-bridge-log--rings)))
    (erase-buffer)
    (when ring
      (mapc #'edn-bridge-log--insert (nreverse (ring-elements ring))))))

;;;###autoload
(defun edn-bridge-log ()
  "Show the wire log of this chat's connection, or of the most recent chat's."
  (interactive)
  (let* ((buffer (if (edn-bridge-chat-buffer-p (current-buffer))
                     (current-buffer)
                   (car (edn-bridge-chat-buffers))))
         (conn (and buffer
                    (buffer-local-value 'edn-bridge-chat--conn buffer))))
    (unless conn
      (user-error "There is no chat with a connection"))
    (pop-to-buffer (edn-bridge-log--buffer-name conn))
    (edn-bridge-log-mode)
    (setq edn-bridge-log--conn conn)
    (edn-bridge-log--revert)
    (goto-char (point-max))))

(add-hook 'edn-bridge-rpc-log-functions #'edn-bridge-log--keep)

(provide 'edn-bridge-log)

;;; edn-bridge-log.el ends here
